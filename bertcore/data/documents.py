"""A document on its way into the corpus, and the Parquet shards that cleaned documents are kept in."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
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


class CorpusWriter:
    """Writes the sentences of documents into Parquet shards ``SPLIT-NNNNN.parquet`` of about `shard_characters`
    each."""

    def __init__(
        self, directory: Path, split: str, shard_characters: int = 64_000_000, group_characters: int = 4_000_000
    ):
        self._directory, self._split = directory, split
        self._shard_characters, self._group_characters = shard_characters, group_characters
        self._rows: list[dict[str, object]] = []
        self._writer: pq.ParquetWriter | None = None
        self._shards = self._in_group = self._in_shard = 0

    def add(self, document: Document, sentences: list[str]) -> None:
        self._rows.append({"id": document.id, "source": document.source, "sentences": sentences})
        self._in_group += sum(map(len, sentences))
        if self._in_group >= self._group_characters:
            self._write_group()

    def close(self) -> None:
        if self._rows:
            self._write_group()
        if self._writer is not None:
            self._writer.close()

    def _write_group(self) -> None:
        if self._writer is not None and self._in_shard >= self._shard_characters:
            self._writer.close()
            self._writer, self._in_shard = None, 0
        if self._writer is None:
            path = self._directory / f"{self._split}-{self._shards:05d}.parquet"
            self._writer = pq.ParquetWriter(path, CORPUS_SCHEMA, compression="zstd")
            self._shards += 1
        self._writer.write_table(pa.Table.from_pylist(self._rows, CORPUS_SCHEMA))
        self._in_shard += self._in_group
        self._rows, self._in_group = [], 0


DOCSTRING_SCHEMA = pa.schema(
    [
        ("document_id", pa.string()),
        ("split", pa.string()),
        ("package", pa.string()),
        ("qualname", pa.string()),
        ("kind", pa.string()),
        ("parameters", pa.list_(pa.string())),
        ("docstring", pa.string()),
    ]
)


class DocstringWriter:
    """Writes the single docstrings of the source pydoc, in `DOCSTRING_SCHEMA`, with the split of their document."""

    def __init__(self, path: Path, split_of: Callable[[str], str], group_rows: int = 8192):
        self._writer = pq.ParquetWriter(path, DOCSTRING_SCHEMA, compression="zstd")
        self._split_of, self._group_rows = split_of, group_rows
        self._rows: list[dict[str, object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def add(self, docstrings: Iterable[object]) -> None:
        """Rows from objects that have the schema's columns, other than the split, as attributes."""
        for docstring in docstrings:
            row = {name: getattr(docstring, name) for name in DOCSTRING_SCHEMA.names if name != "split"}
            self._rows.append({**row, "split": self._split_of(row["document_id"])})
        if len(self._rows) >= self._group_rows:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, DOCSTRING_SCHEMA))
        self._rows = []


def corpus_shards(directory: Path, split: str) -> list[Path]:
    """The Parquet shards of a split, in order; `InputError` where there are none."""
    shards = sorted(directory.glob(f"{split}-*.parquet"))
    if not shards:
        raise InputError(
            f"{directory}: no {split}-*.parquet found, expected the output of stage corpus; run `dvc repro corpus`"
        )
    return shards


def read_sentences(paths: Iterable[Path]) -> Iterator[list[list[str]]]:
    """Batches of documents, each a list of its sentences; one batch per Parquet row group, so memory stays bounded."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=["sentences"])["sentences"].to_pylist()
