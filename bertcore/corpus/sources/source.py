"""What a source of documents is. A kind of source is a subclass in a file of its own, a row in `sources.SOURCES`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from bertcore.corpus.documents import Document

Keep = Callable[[Mapping[str, object]], None]
"""Takes a record that a source keeps beside its documents."""


BLOCK = 1 << 20
"""Characters or bytes of a block, which ends with the document that reaches them: a tenth of a second of work."""


@dataclass
class Drops:
    """What is left out while blocks are read."""

    counts: Counter[str] = field(default_factory=Counter)
    """By reason."""
    said: dict[str, str] = field(default_factory=dict)
    """Lines for the log, by what they are about, such as a file and a reason: of each the first one."""


class Block:
    """Some documents of a source. One process makes the blocks in order, and any other one can read each of them."""

    size: int
    """About how many bytes of text it holds."""

    def documents(self, drops: Drops) -> Iterator[Document]:
        """Its documents in their order; what is left out is added to `drops`."""
        raise NotImplementedError


@dataclass(frozen=True)
class ReadBlock(Block):
    """Documents that are read already."""

    read: list[Document]
    size: int

    def documents(self, drops: Drops) -> Iterator[Document]:
        yield from self.read


def in_blocks(documents: Iterable[Document]) -> Iterator[Block]:
    """All `documents`, in order."""
    block: list[Document] = []
    size = 0
    for document in documents:
        block.append(document)
        size += len(document.text)
        if size >= BLOCK:
            yield ReadBlock(block, size)
            block, size = [], 0
    if block:
        yield ReadBlock(block, size)


def gathered(blocks: Iterable[Block]) -> Iterator[tuple[Block, ...]]:
    """All `blocks`, in order: small ones, such as those of small files, together. Those of large files, which lie just
    below `BLOCK`, stay alone."""
    some: list[Block] = []
    size = 0
    for block in blocks:
        some.append(block)
        size += max(block.size, 1)
        if size >= BLOCK // 2:
            yield tuple(some)
            some, size = [], 0
    if some:
        yield tuple(some)


class Source:
    """One entry of `corpus.sources`."""

    RECORDS: tuple[str, pa.Schema] | None = None
    """File and columns of what a source of this kind keeps beside its documents, for tasks that are made from it. The
    column `split` is filled in from `document_id`."""

    def __init__(self, uri: str, *, wrapped: bool = False, column: str | None = None) -> None:
        """`ConfigError` where `uri` is malformed. Nothing is read yet. `wrapped`: whether its lines are wrapped, so
        that a blank one ends no document. `column`: that of its texts; None: the one that texts of this kind have."""
        self.uri = uri
        self.wrapped = wrapped
        self.column = column

    @property
    def files(self) -> Sequence[Path]:
        """The local files that decide what it gives, sorted; `ConfigError` where one that it needs is missing."""
        return ()

    def documents(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[Document]:
        """The documents, read lazily, in the same order with the same ids every time.

        `files`: those of the property, or links to them; where it is empty, those of the property. `dropped` counts
        what is left out, by reason. `keep` is given the records of a document before it is yielded.
        """
        raise NotImplementedError

    def blocks(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[Block]:
        """The same documents in blocks, for a kind of source whose text need not be read by the process that finds it;
        what is left out when a block is read is not in `dropped`."""
        return in_blocks(self.documents(files, dropped, keep))

    def look(self) -> None:
        """Raise `InputError` for a local file that holds something else than it should, as far as a look at its
        beginning tells."""

    def warnings(self, files: Sequence[Path]) -> list[str]:
        """What a reader of the corpus must know of `files`, a line each."""
        return []

    @property
    def unread(self) -> Sequence[Path]:
        """Local files beside `files` that are none of a kind that is read, sorted."""
        return ()

    def text_bytes(self, documents: int | None = None) -> float | None:
        """About how much text it gives, or the first `documents` of it; None where that is known only when it is
        read."""
        return None

    def revisions(self) -> dict[str, str | None]:
        """Of data that may change under its name: the version that is read now; None where it cannot be told."""
        return {}
