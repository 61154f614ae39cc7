"""`.parquet`: a column `text`, or another one that is named, and optionally `id`."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.compressed import compression_of, damaged, open_binary
from bertcore.corpus.sources.formats.blocks import NO_TEXT, NOT_UTF8, FileBlock, Format, Part, key_of
from bertcore.corpus.sources.source import BLOCK, Drops
from bertcore.errors import InputError
from bertcore.files import FULL

BATCH_ROWS = 256
_MOST_ROWS = 65_536
"""Of a block, where they have hardly any text."""
PARQUET_BUFFER = 1 << 20
"""Bytes of a column that are read at once: by default Arrow holds the whole file."""
_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())


def _cut(path: Path, column: str) -> Iterator[Part]:
    """In blocks of ids and texts. Parquet promises UTF-8, but not every writer keeps it, and Arrow does not look: so
    texts are read as bytes."""
    try:
        with _unpacked(path) as plain, pq.ParquetFile(plain, pre_buffer=False, buffer_size=PARQUET_BUFFER) as file:
            rows: list[tuple[Any, bytes | None]] = []
            size = 0
            for row in _rows(path, file, column):
                rows.append(row)
                size += len(row[1] or b"")
                if size >= BLOCK or len(rows) == _MOST_ROWS:
                    yield rows, size, len(rows), len(rows)
                    rows, size = [], 0
            if rows:
                yield rows, size, len(rows), len(rows)
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) in FULL:
            raise InputError(
                f"{path}: no space left below {tempfile.gettempdir()} to unpack it; free some, or set TMPDIR to "
                "another disk"
            ) from None
        raise damaged(path, OSError(str(error).splitlines()[0])) from None


def _rows(path: Path, file: pq.ParquetFile, column: str) -> Iterator[tuple[Any, bytes | None]]:
    types = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
    for name in (column, "id"):
        if file.schema_arrow.names.count(name) > 1:
            raise InputError(f"{path}: found several columns {name!r}, expected one; rename the others")
    if not _is_text(types.get(column)):
        columns = ", ".join(f"{name} ({type_})" for name, type_ in types.items())
        raise InputError(
            f"{path}: no text column {column!r} among {columns or 'none'}; name the column of the texts, {{uri: …, "
            "column: NAME}, or write it as strings"
        )
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=[name for name in (column, "id") if name in types]):
        yield from zip(_ids(batch), _as_bytes(batch.column(column)).to_pylist(), strict=True)


def _parse(block: FileBlock, drops: Drops) -> Iterator[tuple[str, str]]:
    for index, (id_, text) in enumerate(block.data, start=block.index):
        try:
            if text is None:
                block.drop(drops, NO_TEXT, index + 1, first=False)
            else:
                yield key_of(id_, index), text.decode()
        except UnicodeDecodeError:
            block.drop(drops, NOT_UTF8, index + 1, first=False)


def _ids(batch: pa.RecordBatch) -> list[Any]:
    if "id" not in batch.schema.names:
        return [None] * batch.num_rows
    column = batch.column("id")
    if not _is_text(column.type):
        return column.to_pylist()
    ids = _as_bytes(column).to_pylist()
    return [None if id_ is None else id_.decode(errors="replace") for id_ in ids]


def _is_text(type_: Any) -> bool:
    """Strings, as bytes too, and the dictionaries of them that pandas writes of its categories."""
    if type_ is not None and pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return type_ in _TEXTS


def _as_bytes(column: pa.Array) -> pa.Array:
    decoded = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return decoded.cast(pa.large_binary())


@contextmanager
def _unpacked(path: Path) -> Iterator[Path | BinaryIO]:
    """Parquet is read from its end, so a packed file is first unpacked, on disk and not in memory, into a file without
    a name, which goes with its process."""
    if compression_of(path) is None:
        yield path
        return
    with tempfile.TemporaryFile() as file:
        with open_binary(path) as packed:
            shutil.copyfileobj(packed, file, 1 << 20)
        file.seek(0)
        yield cast(BinaryIO, file)


FORMAT = Format(_cut, _parse)
