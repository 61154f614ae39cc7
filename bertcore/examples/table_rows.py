"""The rows of CSV, TSV, JSONL and Parquet files (plain, `.gz` or `.zst`) as one stream of mappings."""

import csv
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.compressed import parse_json, plain_ending, read_bytes, read_json, read_lines, refuse_directory
from bertcore.errors import InputError
from bertcore.examples.bad_rows import (
    NO_LABEL,
    NOT_TEXT,
    NOT_UTF8,
    UNKNOWN_LABEL,
    WRONG_COLUMNS,
    BadRowError,
    BadRows,
    decode,
)
from bertcore.examples.schema import composed

Row: TypeAlias = Mapping[str, Any]
NumberedRow: TypeAlias = tuple[int, Row | BadRowError]
"""The number of a row (of its first line, in text) and the row, or what is wrong with it."""
Example = TypeVar("Example")


@dataclass(frozen=True)
class Rows:
    """The rows of one split."""

    where: str
    """The file or data set that errors name."""
    numbered: Iterable[NumberedRow]


_PARQUET_ROWS = 1024
"""Rows that are made Python's own at a time."""
_MOST_DIGITS = 18
"""Of a number that stands for a class or a place."""
NOT_JSON, NO_NAME = "not a JSON object", "label that is no name"
HIDDEN = ("", "-1")
"""What stands for a label that is not told, as in the test splits of data sets on the hub."""


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


def require_columns(first: Row, named: Mapping[str, str | None], layout: TextLayout, where: str) -> None:
    """`InputError` naming the option if a column of `named`, option -> name, is missing in the first row at `where`."""
    for option, name in named.items():
        if name is not None and name not in first:
            remedy = f"correct the option {option}{'' if layout.header else ' (there is no header: give its number)'}"
            raise InputError(
                f"{where}: no column {name!r} among {', '.join(map(repr, list(first)[:12]))}; "
                f"{advice_on(list(first), name) or remedy}"
            )


def require_distinct(options: Any, *names: str) -> None:
    """`ValueError` where two of the options `names` give one column."""
    given: dict[str, str] = {}
    for name in names:
        columns = getattr(options, name)
        for column in columns if isinstance(columns, list) else [columns]:
            if column is not None and (other := given.setdefault(column, name)) != name:
                raise ValueError(f"{name}: found {column!r} as in {other}, expected a column of its own; correct one")


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


def cell_of(row: Row, name: str) -> Any:
    """The cell in the column `name`; `BadRowError` where the row has none."""
    if name not in row:  # in a line of JSONL; the columns of all other files are the same in every row
        raise BadRowError(WRONG_COLUMNS, f"found no field {name!r}, expected one in every row")
    return row[name]


def text_of(row: Row, name: str) -> str:
    """The text in the column `name`, "" where it is null; `BadRowError` for anything else."""
    cell = cell_of(row, name)
    if cell is not None and not isinstance(cell, str):
        raise BadRowError(NOT_TEXT, f"found {cell!r} ({type(cell).__name__}) in {name!r}, expected a text")
    return cell or ""


def name_of(cell: Any) -> str:
    """A label as it is kept, "" where there is none; `BadRowError` for what cannot be one."""
    if isinstance(cell, (list, dict, bytes)):
        message = f"found the label {str(cell)[:60]} ({type(cell).__name__}), expected a name or a number"
        raise BadRowError(NO_NAME, message)
    if cell is None or cell != cell:  # NaN is pandas' for a missing cell
        return ""
    return composed(str(_whole(cell)).strip())


def score_of(cell: Any) -> float:
    """The label of a regression; `BadRowError` where it is no number. JSON's true and Python's 1_000 are none."""
    try:
        number = math.nan if isinstance(cell, bool) or "_" in str(cell) else float(cell)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        reason = UNKNOWN_LABEL if name_of(cell) else NO_LABEL
        raise BadRowError(reason, f"found the score {cell!r}, expected a number such as 2.5")
    return number


def whole_number(text: str) -> int | None:
    """The number that a label of digits is; None for any other label, and for digits that nobody counts to."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def has_label(row: Row | BadRowError, column: str, hidden: Collection[str]) -> bool:
    """Whether there is a label in `column`, and not one of `hidden`, which stand for none."""
    cell = None if isinstance(row, BadRowError) else row.get(column)
    if isinstance(cell, list):
        return any(each is not None for each in cell)
    return cell is not None and cell == cell and str(_whole(cell)).strip() not in hidden


def _whole(cell: Any) -> Any:
    """As pandas writes whole numbers of a column where a cell is missing."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def examples_of(
    rows: Rows, bad: BadRows, check: Callable[[Row], None], make: Callable[[Row], dict[str, Any]]
) -> list[tuple[int, dict[str, Any]]]:
    """What `make` makes of each row, with the row's number; `id` counts the rows from 0, the `bad` ones included.
    `check` is asked about the columns of the first row that can be read. `InputError` where no row is usable."""
    found: list[tuple[int, dict[str, Any]]] = []
    is_first = True
    for index, (number, row) in enumerate(rows.numbered):
        try:
            if isinstance(row, BadRowError):
                raise row
            if is_first:
                check(row)
                is_first = False
            found.append((number, {"id": str(index), **make(row)}))
        except BadRowError as error:
            bad.add(f"{rows.where}:{number}", error)
    return some(found, rows.where)


def some(rows: Iterable[Example], where: str) -> list[Example]:
    """All of `rows`; `InputError` naming the file at `where` if there are none."""
    if not (found := list(rows)):
        raise InputError(f"{where}: found no usable row, expected some; check the file and the options of its columns")
    return found


READERS: dict[str, Callable[[Path, TextLayout], Iterator[NumberedRow]]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
}
