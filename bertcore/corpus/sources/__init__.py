"""Where documents come from: one module per kind of source, chosen by the form of its URI."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bertcore import hub as hub_uri
from bertcore.config import suggest
from bertcore.corpus.documents import Document
from bertcore.corpus.sources import http, hub, local
from bertcore.corpus.sources.pydoc import source as pydoc
from bertcore.errors import ConfigError

Source = Callable[[str, list[Path], Counter[str]], Iterator[Document]]
"""(URI, local files, counts of dropped records by reason) -> documents, lazily."""


@dataclass(frozen=True)
class Location:
    """What a source's URI names."""

    kind: str
    """A key of `SOURCES`."""
    uri: str
    files: tuple[Path, ...] = ()
    """The files of a local source, sorted."""


def parse_uri(uri: str) -> Location:
    """What `uri` names; `ConfigError` for an unknown scheme, a malformed URI, or local files that are not there."""
    if uri == "pydoc":
        return Location("pydoc", uri)
    kind, separator, _ = uri.partition("://")
    if not separator:
        return Location("local", uri, tuple(local.find_files(uri)))
    if kind not in REMOTE_URIS:
        raise ConfigError(
            f"{uri}: unknown kind of source {kind!r}; {suggest(kind, ['pydoc', *REMOTE_URIS])}, "
            f"or a local file, glob or directory"
        )
    REMOTE_URIS[kind](uri)
    return Location(kind, uri)


def open_source(uri: str, paths: list[Path], statistics: Counter[str] | None = None) -> Iterator[Document]:
    """The documents of the source `uri`, read lazily, in the same order with the same ids every time.

    `paths`: the files to read for a local source (links to them will do); empty takes those that the URI names.
    `statistics`: counts every dropped record by reason while the documents are read.
    """
    location = parse_uri(uri) if not paths or "://" in uri or uri == "pydoc" else Location("local", uri)
    counts: Counter[str] = Counter() if statistics is None else statistics
    return SOURCES[location.kind](uri, paths or list(location.files), counts)


def _read_pydoc(uri: str, paths: list[Path], statistics: Counter[str]) -> Iterator[Document]:
    """`paths`: the lock file that names the distributions; without one, that of the working directory."""
    lock = paths[0] if paths else Path("requirements.lock")
    return (document for document, _ in pydoc.documents(pydoc.read_docstrings(lock, statistics)))


REMOTE_URIS: dict[str, Callable[[str], object]] = {
    "hf": hub_uri.parse_uri,
    "http": http.parse_url,
    "https": http.parse_url,
}

SOURCES: dict[str, Source] = {
    "pydoc": _read_pydoc,
    "local": local.read,
    "hf": hub.read,
    "http": http.read,
    "https": http.read,
}
