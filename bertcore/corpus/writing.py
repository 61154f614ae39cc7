"""The Parquet shards of a corpus: one process says which documents stand in them, and any other one writes each.

Documents wait in parts, Arrow files that the workers write (`write_part`), until a shard is complete that they belong
to.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bertcore.corpus.documents import CORPUS_SCHEMA

SHARD_CHARACTERS, GROUP_CHARACTERS = 64_000_000, 4_000_000
"""Of the sentences in a shard and in a row group, which end with the document that reaches them."""


@dataclass(frozen=True)
class Rows:
    """Some documents of a part."""

    part: str
    """Absolute path."""
    rows: NDArray[np.int64]
    last: bool
    """Whether no document of the part comes later."""


@dataclass(frozen=True)
class ShardPlan:
    """A shard that is to be written."""

    path: str
    """Absolute path."""
    groups: tuple[tuple[Rows, ...], ...]
    """The documents of each row group."""


@dataclass
class _Growing:
    """The shard of one name that is not complete yet."""

    number: int = 0
    groups: list[tuple[Rows, ...]] = field(default_factory=list)
    group: list[Rows] = field(default_factory=list)
    in_shard: int = 0
    in_group: int = 0


class ShardPlans:
    """The shards of a corpus, as documents are added: for each name ``NAME-00000.parquet``, ``NAME-00001.parquet``, …

    Where groups and shards end depends on the documents alone, not on how many of them a part holds.
    """

    def __init__(
        self, directory: Path, shard_characters: int = SHARD_CHARACTERS, group_characters: int = GROUP_CHARACTERS
    ):
        self._directory = directory.resolve()
        self._shard_characters, self._group_characters = shard_characters, group_characters
        self._growing: dict[str, _Growing] = {}
        self._complete: list[ShardPlan] = []

    def add(self, name: str, part: Path, rows: NDArray[np.int64], characters: NDArray[np.int64]) -> None:
        """All documents of `part` that enter the corpus, in order; `characters` (rows,): in the sentences of each."""
        shard = self._growing.setdefault(name, _Growing())
        begin = 0
        for end, size in enumerate(characters.tolist(), start=1):
            shard.in_group += size
            if shard.in_group >= self._group_characters:
                shard.group.append(Rows(str(part), rows[begin:end], end == len(rows)))
                begin = end
                self._end_group(name, shard)
        if begin < len(rows):
            shard.group.append(Rows(str(part), rows[begin:], True))

    def complete(self) -> Iterator[ShardPlan]:
        """Those that have become complete."""
        while self._complete:
            yield self._complete.pop(0)

    def rest(self) -> Iterator[ShardPlan]:
        """All others, when there is no further document."""
        for name, shard in self._growing.items():
            if shard.group:
                self._end_group(name, shard)
            if shard.groups:
                self._end_shard(name, shard)
        yield from self.complete()

    def _end_group(self, name: str, shard: _Growing) -> None:
        shard.groups.append(tuple(shard.group))
        shard.in_shard += shard.in_group
        shard.group, shard.in_group = [], 0
        if shard.in_shard >= self._shard_characters:
            self._end_shard(name, shard)

    def _end_shard(self, name: str, shard: _Growing) -> None:
        path = self._directory / f"{name}-{shard.number:05d}.parquet"
        self._complete.append(ShardPlan(str(path), tuple(shard.groups)))
        shard.number += 1
        shard.groups, shard.in_shard = [], 0


def write_part(path: Path, documents: pa.Table) -> None:
    """`documents`: see `CORPUS_SCHEMA`."""
    with _written(path, path) as sink, pa.ipc.new_file(sink, documents.schema) as writer:
        writer.write_table(documents)


def write_shard(plan: ShardPlan) -> list[Path]:
    """The parts of which no document stands in a later shard. A shard has the same bytes each time."""
    path, part = Path(plan.path), Path(plan.groups[0][0].part)
    with _written(path, part.with_name(path.name)) as sink:
        # Sentences without a dictionary, by which those of forms and reports would seem smaller than they are.
        writer = pq.ParquetWriter(sink, CORPUS_SCHEMA, compression="zstd", use_dictionary=["source"])
        try:
            for group in plan.groups:
                writer.write_table(pa.concat_tables(map(_read, group)).combine_chunks())
            writer.close()
        finally:
            writer.is_open = False  # after an error its finaliser would try to write again
    return [Path(rows.part) for group in plan.groups for rows in group if rows.last]


@contextmanager
def _written(path: Path, unfinished: Path) -> Iterator[pa.NativeFile]:
    """A file that becomes `path` when the block ends without an error. Until then it lies beside `unfinished`, among
    the parts, and is removed with them if the worker is killed. Not synced: if the machine fails, all begins anew."""
    beside = unfinished.with_name(f".{unfinished.name}.{socket.gethostname()}.{os.getpid()}")
    with pa.OSFile(str(beside), "wb") as sink:
        yield sink
    beside.replace(path)


def _read(rows: Rows) -> pa.Table:
    with pa.memory_map(rows.part) as file:
        return pa.ipc.open_file(file).read_all().take(rows.rows)
