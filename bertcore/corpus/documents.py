"""A document on its way into the corpus, and the Parquet shards that cleaned documents are kept in."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bertcore.errors import InputError

SPLITS = ("train", "heldout")

CORPUS_SCHEMA = pa.schema([("id", pa.string()), ("source", pa.string()), ("sentences", pa.list_(pa.string()))])


@dataclass(frozen=True)
class Document:
    """One text as a source yields it."""

    id: str
    """Stable name within its source, such as ``wikipedia.txt:17`` or ``pydoc:json.decoder``."""
    text: str
    """One paragraph a line."""
    source: str
    """The URI of `corpus.sources` that it came from."""


_GROUP_ROWS = 8192
"""Records of one row group of a file, and as many more as belong to the last one's document."""


class RecordWriter:
    """Writes what a source keeps beside its documents, with the split of the document of each record."""

    def __init__(self, path: Path, schema: pa.Schema, split_of: Callable[[str], str]):
        self._schema, self._split_of = schema, split_of
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._rows: list[dict[str, object]] = []
        self._document = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def add(self, record: Mapping[str, object]) -> None:
        """`record` has the schema's columns, other than `split`. A group ends with all records of a document."""
        document = str(record["document_id"])
        if document != self._document and len(self._rows) >= _GROUP_ROWS:
            self._flush()
        self._document = document
        row = {name: record[name] for name in self._schema.names if name != "split"}
        self._rows.append({**row, "split": self._split_of(document)})

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
        self._rows = []


def corpus_shards(directory: Path, split: str) -> list[Path]:
    """The Parquet shards of a split, in order; `InputError` where there are none."""
    shards = sorted(directory.glob(f"{split}-*.parquet"))
    if not shards:
        raise InputError(
            f"{directory}: no {split}-*.parquet found, expected the output of stage corpus; run `dvc repro corpus`"
        )
    return shards


def copy_name(shard: Path) -> str:
    """What the shards of the same copies of documents share: ``train`` of train-00003, ``train-x002`` of the second
    copies in train-x002-00000."""
    return shard.stem.rpartition("-")[0]


def first_copies(directory: Path) -> list[Path]:
    """The training shards of a corpus without those of further copies, which hold nothing that these do not."""
    return [path for path in corpus_shards(directory, "train") if copy_name(path) == "train"]


@dataclass(frozen=True)
class RowGroup:
    """A block of documents of the corpus, the smallest part that is read at once."""

    path: str
    index: int
    """Of the row group in the Parquet file."""
    size: int
    """Bytes of its text before compression, as the file says."""

    def read(self, without: str | None = None) -> pa.ListArray:
        """(D,) the sentences of each document, those of the source `without` left out."""
        with pq.ParquetFile(self.path) as file:
            if without is None:
                return file.read_row_group(self.index, columns=["sentences"])["sentences"].combine_chunks()
            table = file.read_row_group(self.index, columns=["source", "sentences"])
        return table.filter(pc.not_equal(table["source"], without))["sentences"].combine_chunks()


def row_groups(paths: Iterable[Path]) -> Iterator[RowGroup]:
    """The row groups of Parquet shards, in order."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for index in range(file.num_row_groups):
                yield RowGroup(str(path), index, file.metadata.row_group(index).total_byte_size)


GROUPS_AT_ONCE = 32
"""Blocks of training text that a worker looks through, some 130 MB: what it looks for goes with them."""


def training_parts(directory: Path) -> Iterator[tuple[RowGroup, ...]]:
    """All training text of a corpus, without further copies, in parts for workers anywhere."""
    groups = row_groups(path.resolve() for path in first_copies(directory))
    while part := tuple(islice(groups, GROUPS_AT_ONCE)):
        yield part


def read_sentences(paths: Iterable[Path], without: str | None = None) -> Iterator[list[list[str]]]:
    """Batches of documents, each a list of its sentences; one batch per Parquet row group, so memory stays bounded.

    Documents of the source `without` are left out.
    """
    for group in row_groups(paths):
        yield group.read(without).to_pylist()
