"""The rows of CSV, TSV, JSONL and Parquet files (plain, `.gz` or `.zst`) as one stream of mappings."""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.compressed import parse_json, plain_ending, read_bytes, read_json, read_lines, refuse_directory
from bertcore.errors import InputError
from bertcore.examples.bad_rows import NOT_UTF8, WRONG_COLUMNS, BadRowError, decode

Row: TypeAlias = Mapping[str, Any]
NumberedRow: TypeAlias = tuple[int, Row | BadRowError]
"""The number of a row (of its first line, in text) and the row, or what is wrong with it."""


@dataclass(frozen=True)
class Rows:
    """The rows of one split."""

    where: str
    """The file or data set that errors name."""
    numbered: Iterable[NumberedRow]


_PARQUET_ROWS = 1024
"""Rows that are made Python's own at a time."""
NOT_JSON = "not a JSON object"


@dataclass(frozen=True, kw_only=True)
class TextLayout:
    """How the cells of a CSV or TSV file are told apart."""

    delimiter: str | None = None
    """What stands between columns, one character; null: a comma in `.csv`, a tab in `.tsv` and `.txt`."""
    quotes: bool | None = None
    """Whether double quotes enclose cells, as in CSV's standard; null: where the delimiter is not a tab."""
    header: bool = True
    """Whether the first row names the columns; if not, their names are their numbers from 0."""

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter: found {self.delimiter!r}, expected one character, or null")


def read_rows(path: Path, layout: TextLayout) -> Iterator[NumberedRow]:
    """The rows of `path`, whose ending says what it is; `InputError` for another ending, or a directory."""
    refuse_directory(path)
    reader = READERS.get(plain_ending(path))
    if reader is None:
        raise InputError(f"{path}: unknown ending, expected {', '.join(READERS)} (also .gz, .zst); convert it")
    return reader(path, layout)


def _read_text(path: Path, layout: TextLayout) -> Iterator[NumberedRow]:
    delimiter = layout.delimiter or ("," if plain_ending(path) == ".csv" else "\t")
    quotes = delimiter != "\t" if layout.quotes is None else layout.quotes
    names: list[str] | None = None
    blank: list[int] = []
    for number, cells in _records(path, delimiter, quotes):
        if not cells:
            blank.append(number)
            continue
        if names is None:
            names = cells if layout.header else [str(index) for index in range(len(cells))]
            if layout.header:
                _check_header(names, path)
                blank.clear()
                continue
        if len(names) == 1:  # a blank line is a row with an empty cell, except at the end of the file
            yield from ((line, {names[0]: ""}) for line in blank)
        blank.clear()
        if len(cells) != len(names):
            message = f"found {len(cells)} columns, expected {len(names)} (delimiter {delimiter!r})"
            yield number, BadRowError(WRONG_COLUMNS, message)
        elif any(map(_not_utf8, cells)):
            yield number, BadRowError(NOT_UTF8, "found bytes that are not UTF-8, expected UTF-8")
        else:
            yield number, dict(zip(names, cells, strict=True))


def _check_header(names: list[str], path: Path) -> None:
    if any(map(_not_utf8, names)):
        raise InputError(f"{path}:1: the header is not UTF-8; convert the file to UTF-8")
    _check_different(names, f"{path}:1")


def _check_different(names: list[str], where: str) -> None:
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{where}: the column {twice[0]!r} stands twice, expected different names; rename one")


def _not_utf8(cell: str) -> bool:
    return not cell.isascii() and any("\udc80" <= each <= "\udcff" for each in cell)


def _records(path: Path, delimiter: str, quotes: bool) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, none for a blank line; bytes that are not UTF-8 become surrogates, so that only their row
    is lost."""
    lines = (
        line.decode("utf-8-sig" if index == 0 else "utf-8", errors="surrogateescape")
        for index, line in enumerate(read_lines(path, ends=quotes))
    )
    if not quotes:
        for number, line in enumerate(lines, start=1):
            yield number, line.split(delimiter) if line else []
        return
    # A quoted cell may have several lines, and answers are places in it.
    lines = (line.rstrip("\r\n") + ("\r\n" if line.endswith("\r\n") else "\n") for line in lines)
    csv.field_size_limit(sys.maxsize)  # the default of 131,072 characters is less than a long document has
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    first = 1
    try:
        for cells in reader:
            yield first, cells
            first = reader.line_num + 1
    except csv.Error as error:
        if "new-line" in str(error):
            raise InputError(
                f"{path}:{first}: found a carriage return inside a row, expected line ends \\n or \\r\\n; convert"
            ) from None
        raise InputError(
            f"{path}:{first}: quotes that do not close or cells that go on after them ({error}); correct the row, or "
            "set quotes: false (--no-quotes) where quotes are ordinary characters"
        ) from None


def _read_jsonl(path: Path, layout: TextLayout) -> Iterator[NumberedRow]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(decode(line, first=number == 1))
            if not isinstance(row, dict):
                raise BadRowError(NOT_JSON, f"found a {type(row).__name__}, expected a JSON object on each line")
            yield number, row
        except BadRowError as error:
            yield number, error
        except ValueError as error:
            said = getattr(error, "msg", error)
            yield number, BadRowError(NOT_JSON, f"found no JSON ({said}), expected a JSON object on each line")


def _read_json(path: Path, layout: TextLayout) -> Iterator[NumberedRow]:
    """JSON lines, or one array of objects, as pandas writes both."""
    first = next((line for line in read_lines(path) if line.strip()), b"")
    if not first.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        yield from _read_jsonl(path, layout)
        return
    for number, row in enumerate(read_json(path), start=1):
        if isinstance(row, dict):
            yield number, row
        else:
            yield number, BadRowError(NOT_JSON, f"found a {type(row).__name__}, expected an array of JSON objects")


def _read_parquet(path: Path, layout: TextLayout) -> Iterator[NumberedRow]:
    try:
        file = pq.ParquetFile(pa.BufferReader(read_bytes(path)))
        _check_different(file.schema_arrow.names, str(path))
        rows = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(batch_size=_PARQUET_ROWS))
        yield from enumerate(rows, start=1)
    except (pa.ArrowException, OSError, OverflowError, ValueError) as error:  # also of values that Python has not
        raise InputError(
            f"{path}: not a Parquet file ({str(error).splitlines()[0]}); fetch or write it again"
        ) from None


def advice_on(columns: Sequence[Any], wanted: str) -> str:
    """What is probably wrong with the header of a table without the column `wanted`; "" where nothing tells."""
    names = [str(name) for name in columns]
    if len(names) == 1 and (other := next((each for each in ";\t|," if each in names[0]), None)):
        return f"columns seem to be parted by {other!r}: give that as the delimiter"
    if wanted in {name[1:-1] for name in names if name[:1] == name[-1:] == '"'}:
        return "the names stand in quotes, which are part of them in a .tsv: take them out, or name the file .csv"
    if wanted in {name.strip() for name in names}:
        return "that name begins or ends with a blank there: take the blank out of the header"
    return ""


READERS: dict[str, Callable[[Path, TextLayout], Iterator[NumberedRow]]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
}
