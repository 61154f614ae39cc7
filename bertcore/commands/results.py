"""What a command gives: a table in a terminal, JSON lines in a pipe, or a file."""

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bertcore.errors import ConfigError
from bertcore.files import disk_errors, replace_file, unwritable

Record = Mapping[str, Any]
Flatten = Callable[[Record], Iterable[Record]]
"""What a record is in a table whose cells are words and numbers: any number of rows."""

_COUNTED = "cut"
"""What servers say of each text, and commands once of all: `parts.say_unseen`."""
SHOWN = ("table", "jsonl", "csv", "tsv")


def add_output(parser: argparse.ArgumentParser, *further: str) -> None:
    """The arguments that say where the results go; `further` are endings that the command itself writes."""
    endings = ", ".join([*WRITERS, *further])
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"{endings}; an old one is replaced, not what is read")
    parser.add_argument("--format", choices=SHOWN, help="of what is printed (default: table in a terminal, else jsonl)")


def check_output(options: argparse.Namespace) -> None:
    """`ConfigError`, before anything is computed, for a file of a kind that is not written."""
    if options.out is not None and options.out.suffix not in WRITERS:
        raise ConfigError(f"--out: found {options.out.name!r}, expected the ending {', '.join(WRITERS)}; rename it")
    check_place(options.out, getattr(options, "file", None))


def check_place(out: Path | None, read: Path | None = None) -> None:
    """`ConfigError` where no file can be written at `out`, or would take the place of what is `read`."""
    if out is None:
        return
    if out.is_dir():
        found = "a directory"
    elif read is not None and out.exists() and read.exists() and out.samefile(read):
        found = "the file that is read"
    elif above := unwritable(out.parent):
        found = f"{above[0]}, where nothing can be written"
    else:
        return
    raise ConfigError(f"--out: found {found}, expected a place for the file {out.name}; name another one")


def numbered(found: Iterable[tuple[str, Record]]) -> Iterator[Record]:
    """What was found of each text, with the text and its number from 1, by which a table tells them apart."""
    for number, (text, row) in enumerate(found, start=1):
        yield {"number": number, "text": text, **row}


def write(options: argparse.Namespace, records: Iterable[Record], flatten: Flatten | None = None) -> None:
    """`records` to where the arguments of `add_output` say. Nothing half-written is left where a file is asked for."""
    flat = flatten or (lambda record: [record])
    records = ({name: value for name, value in record.items() if name != _COUNTED} for record in records)
    if options.out is None:
        shown = options.format or ("table" if sys.stdout.isatty() else "jsonl")
        _PRINTERS[shown](sys.stdout, records, flat)
        return
    count = 0

    def counted() -> Iterator[Record]:
        nonlocal count
        for record in records:
            count += 1
            yield record

    with disk_errors(options.out), replace_file(options.out) as beside:
        WRITERS[options.out.suffix](beside, counted(), flat)
    print(f"{options.out}: {count:,} written", file=sys.stderr)


def _jsonl(file: TextIO, records: Iterable[Record], flatten: Flatten) -> None:
    for record in records:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _csv(file: TextIO, records: Iterable[Record], flatten: Flatten) -> None:
    writers: list[csv.DictWriter[str]] = []
    for row in (row for record in records for row in flatten(record)):
        if not writers:
            writers += (csv.DictWriter(file, list(row), lineterminator="\n", quoting=each) for each in _QUOTING)
            writers[0].writeheader()
        cells = {name: _cell(value) for name, value in row.items()}
        # Python's writer leaves a carriage return alone outside of quotes, where it would end the line.
        writers[any(isinstance(cell, str) and "\r" in cell for cell in cells.values())].writerow(cells)


_QUOTING: tuple[Literal[0, 1], ...] = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)


def _tsv(file: TextIO, records: Iterable[Record], flatten: Flatten) -> None:
    """Without quotes, as tasks and other programs read it: a tab or a line break within a cell becomes a blank."""
    names: list[str] = []
    for row in (row for record in records for row in flatten(record)):
        if not names:
            names = list(row)
            file.write("\t".join(names) + "\n")
        cells = ("" if row[name] is None else str(_cell(row[name])) for name in names)
        file.write("\t".join(_BREAKS.sub(" ", cell) for cell in cells) + "\n")


_BREAKS = re.compile(r"[\t\r\n]")


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def _table(file: TextIO, records: Iterable[Record], flatten: Flatten) -> None:
    table: Table | None = None
    for row in (row for record in records for row in flatten(record)):
        if table is None:
            table = Table(*row, box=None, header_style="bold", pad_edge=False)
        table.add_row(*map(_shown, row.values()))
    if table is not None:
        Console(file=file, markup=False, highlight=False, emoji=False).print(table)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(_cell(value))


def _parquet(path: Path, records: Iterable[Record], flatten: Flatten) -> None:
    pq.write_table(pa.Table.from_pylist([dict(record) for record in records]), path, compression="zstd")


def _text_file(printer: Callable[[TextIO, Iterable[Record], Flatten], None]) -> Callable[..., None]:
    def write(path: Path, records: Iterable[Record], flatten: Flatten) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            printer(file, records, flatten)

    return write


_PRINTERS = {"table": _table, "jsonl": _jsonl, "csv": _csv, "tsv": _tsv}
WRITERS: dict[str, Callable[[Path, Iterable[Record], Flatten], None]] = {
    ".jsonl": _text_file(_jsonl),
    ".csv": _text_file(_csv),
    ".tsv": _text_file(_tsv),
    ".parquet": _parquet,
}
"""By the ending of --out; `.parquet` and `.jsonl` keep records as they are, the others have flat rows."""
