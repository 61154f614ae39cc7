"""Where documents come from: one module per kind of source, chosen by the form of its URI."""

from collections.abc import Iterable

from bertcore.config import suggest
from bertcore.corpus.config import SourceEntry
from bertcore.corpus.sources.http import HttpSource
from bertcore.corpus.sources.hub import HubSource
from bertcore.corpus.sources.local import LocalSource
from bertcore.corpus.sources.pydoc.source import PydocSource
from bertcore.corpus.sources.source import Source
from bertcore.errors import ConfigError


def source_of(uri: str, *, wrapped: bool = False, column: str | None = None) -> Source:
    """The source that `uri` names; `ConfigError` for an unknown scheme or a malformed URI. `wrapped`: whether its lines
    are wrapped; `column`: that of its texts, where it is another than the kind's own."""
    kind, separator, _ = uri.partition("://")
    if not separator:
        return SOURCES.get(uri, LocalSource)(uri, wrapped=wrapped, column=column)
    if f"{kind}://" not in SOURCES:
        known = [name.removesuffix("://") for name in SOURCES]
        raise ConfigError(
            f"{uri}: unknown kind of source {kind!r}; {suggest(kind, known)}, or a local file, glob or directory"
        )
    return SOURCES[f"{kind}://"](uri, wrapped=wrapped, column=column)


def look_for(entries: Iterable[SourceEntry]) -> None:
    """`ConfigError` for the first of them that cannot be read so, or names files which are not on this machine."""
    for entry in entries:
        _ = source_of(entry.uri, **entry.reading).files


SOURCES: dict[str, type[Source]] = {
    "pydoc": PydocSource,
    "hf://": HubSource,
    "http://": HttpSource,
    "https://": HttpSource,
}
"""By the whole URI, or by its scheme; all else are local files."""
