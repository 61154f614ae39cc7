"""Documents from local files, see `formats`."""

import glob
import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from bertcore.compressed import compression_of, plain_ending, plain_name
from bertcore.corpus.cleaning import seems_wrapped
from bertcore.corpus.documents import Document
from bertcore.corpus.sources.formats import COLUMN, ENDINGS, FORMATS, cut
from bertcore.corpus.sources.formats.blocks import FileBlock
from bertcore.corpus.sources.source import Drops, Keep, Source
from bertcore.errors import ConfigError
from bertcore.files import check_link, visible_files

logger = logging.getLogger(__name__)

UNPACKED = {".gz": 4.0, ".zst": 4.0, ".parquet": 2.5}
"""About how much text a byte of a packed file holds, in bytes."""
SAMPLED_DOCUMENTS = 1000
"""The first of a source, by whose mean length so many documents of it are counted as bytes."""
_FILES, _DOCUMENTS, _CHARACTERS = 100, 100, 10_000
"""By so much, of the first files, of the first documents of each and of each of those, wrapped lines are known."""


def find_files(uri: str) -> list[Path]:
    """The files that a path, a glob (`**`: any depth) or a directory names, sorted; `ConfigError` if there are none,
    `InputError` for a link that leads nowhere."""
    try:
        path = Path(uri).expanduser()
        is_directory = path.is_dir()
    except (OSError, RuntimeError) as error:  # a name that is too long, a user who is not there
        raise ConfigError(f"{uri[:200]}: {getattr(error, 'strerror', None) or error}; correct the path") from None
    if is_directory:
        found = [item for item in visible_files(path) if plain_ending(item) in FORMATS]
        if not found:
            raise ConfigError(f"{uri}: no file in this directory ends in {ENDINGS}; name another one")
        return found
    found = [path] if path.exists() else [Path(item) for item in glob.glob(str(path), recursive=True)]
    for item in found:
        check_link(item)
    files = sorted({item for item in found if item.is_file()})  # with two `**` a glob finds a file several times
    if not files:
        raise ConfigError(
            f"{uri}: no such file, glob or directory (from {Path.cwd()}), and not `pydoc`; correct the path"
        )
    for item in files:
        if plain_ending(item) not in FORMATS:
            raise ConfigError(f"{item}: unknown ending, expected {ENDINGS}; convert or rename the file")
    return files


def check_column(uri: str, paths: Sequence[Path], column: str | None) -> None:
    """`ConfigError` where a column is named and none of `paths` has any."""
    if column is not None and all(plain_ending(path) == ".txt" for path in paths):
        raise ConfigError(f"{uri}: found column {column!r}, expected none, as .txt has no columns; leave it out")


def blocks(uri: str, paths: Sequence[Path], *, wrapped: bool = False, column: str | None = None) -> Iterator[FileBlock]:
    """Those of `paths`, in that order; `column` of the texts, where it is not the usual one."""
    for path, name in zip(paths, _names(paths), strict=True):
        yield from cut(uri, path, name, wrapped=wrapped, column=column or COLUMN)


def read(
    uri: str, paths: Sequence[Path], dropped: Counter[str], *, wrapped: bool = False, column: str | None = None
) -> Iterator[Document]:
    """The documents of `paths`, in that order, see `FileBlock.documents`; what is left out is counted in `dropped`, and
    the first of each file is named in the log."""
    drops = Drops(dropped)
    for block in blocks(uri, paths, wrapped=wrapped, column=column):
        said = len(drops.said)
        try:
            yield from block.documents(drops)
        finally:  # also where no more documents are wanted
            for line in list(drops.said.values())[said:]:
                logger.warning(line)


def wrapped_lines(uri: str, paths: Sequence[Path], column: str | None = None) -> list[str]:
    """A line where the lines of some of `paths`, which nobody has told to be wrapped, seem to be."""
    found = [
        path
        for path in paths[:_FILES]
        if seems_wrapped(each.text[:_CHARACTERS] for each in _first_of(uri, path, column))
    ]
    if not found:
        return []
    of_some = f", in {found[0].name} and {len(found) - 1} others" if len(found) > 1 else f", in {found[0].name}"
    apart = "" if len(found) == len(paths[:_FILES]) else ", in a folder of their own"
    return [
        f"{uri}: many lines end within a sentence{of_some if len(paths) > 1 else ''}, and each is read as a paragraph; "
        f"if they are wrapped, say so{apart}: {{uri: {uri}, wrapped: true}}, and give each document a file of its own "
        "(docs/corpus.md)"
    ]


def _first_of(uri: str, path: Path, column: str | None) -> Iterator[Document]:
    documents = (each for block in blocks(uri, [path], column=column) for each in block.documents(Drops()))
    return islice(documents, _DOCUMENTS)


class LocalSource(Source):
    """A file, a glob or a directory."""

    @property
    def files(self) -> Sequence[Path]:
        return find_files(self.uri)

    def documents(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[Document]:
        """See `read`."""
        paths = list(files) or find_files(self.uri)
        yield from read(self.uri, paths, dropped, wrapped=self.wrapped, column=self.column)

    def blocks(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[FileBlock]:
        paths = list(files) or find_files(self.uri)
        yield from blocks(self.uri, paths, wrapped=self.wrapped, column=self.column)

    def look(self) -> None:
        """Read the first record of each file, where a packed one need not be unpacked for it."""
        paths = find_files(self.uri)
        check_column(self.uri, paths, self.column)
        for path in paths:
            if not (plain_ending(path) == ".parquet" and compression_of(path)):
                next(read(self.uri, [path], Counter(), wrapped=self.wrapped, column=self.column), None)

    @property
    def unread(self) -> Sequence[Path]:
        path = Path(self.uri).expanduser()
        return [item for item in visible_files(path) if plain_ending(item) not in FORMATS] if path.is_dir() else ()

    def warnings(self, files: Sequence[Path]) -> list[str]:
        return [] if self.wrapped else wrapped_lines(self.uri, list(files) or find_files(self.uri), self.column)

    def text_bytes(self, documents: int | None = None) -> float:
        whole = sum(file.stat().st_size * UNPACKED.get(file.suffix.lower(), 1.0) for file in self.files)
        if documents is None:
            return whole
        first = [
            len(document.text.encode(errors="replace"))
            for document in islice(self.documents((), Counter(), lambda _: None), min(documents, SAMPLED_DOCUMENTS))
        ]
        return min(whole, documents * sum(first) / max(len(first), 1))


def _names(paths: Sequence[Path]) -> list[str]:
    """What each file is called in its documents' ids: its name, or where two share one, its path below their common
    folder; without the ending of a compression, so that packing a file moves no document in the split, unless a file
    and its packed one lie side by side."""
    names = [plain_name(path) for path in paths]
    if len(set(names)) == len(names):
        return names
    root = os.path.commonpath([path.absolute().parent for path in paths])
    below = [path.absolute().relative_to(root) for path in paths]
    plain = [(path.parent / plain_name(path)).as_posix() for path in below]
    return plain if len(set(plain)) == len(plain) else [path.as_posix() for path in below]
