"""The texts of evaluation data, from files of any layout, with which the corpus is compared (`contamination`)."""

import csv
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.compressed import plain_ending, read_bytes, read_json, read_lines
from bertcore.errors import InputError


def evaluation_texts(path: Path) -> Iterator[str]:
    """Every text in a file of examples, whatever its layout says of it: cells of a table, strings of JSON, lines up to
    a blank one."""
    ending = plain_ending(path)
    if ending not in READERS:
        raise InputError(f"{path}: unknown ending, expected {', '.join(READERS)} (also .gz, .zst); convert the file")
    return READERS[ending](path)


def _lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path}:{number}: not UTF-8; convert the file to UTF-8") from None


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    for ends, group in itertools.groupby(lines, key=lambda line: not line.strip()):
        if not ends:
            yield "\n".join(group)


def _words(path: Path) -> Iterator[str]:
    """The first of the columns, which white space parts; where that numbers the words, as in CoNLL-U, the second one,
    without comments."""
    lines = list(_lines(path))
    rows = [line.split() for line in lines if not line.startswith("# ")]
    if all(len(row) > 1 and row[0][0].isdecimal() for row in rows if row):
        return (row[1] if row else "" for row in rows)
    return (line.split()[0] if line.strip() else "" for line in lines)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):  # half of a surrogate pair, which JSON can escape, has no UTF-8
        yield value if value.isascii() else value.encode(errors="replace").decode()
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _strings(member)


def _cells(path: Path) -> Iterator[str]:
    csv.field_size_limit(sys.maxsize)  # the default of 131,072 characters is less than a long document has
    reader = csv.reader(line + "\n" for line in _lines(path))
    try:
        for row in reader:
            yield from row
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV ({error}); correct the file") from None


def _json(path: Path) -> Iterator[str]:
    """One value, or JSON lines, as tasks read both: those are lines of which the first one is a value by itself."""
    try:
        first = list(itertools.islice((line for line in _lines(path) if line.strip()), 2))
    except InputError:  # one value on a line longer than any of a text, say
        first = []
    return _json_lines(path) if len(first) == 2 and _is_json(first[0]) else _strings(read_json(path))


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _json_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(_lines(path), start=1):
        try:
            yield from _strings(json.loads(line) if line.strip() else None)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number}: not JSON ({error}); correct the file") from None


def _columns(path: Path) -> Iterator[str]:
    try:
        with pq.ParquetFile(pa.BufferReader(read_bytes(path))) as file:
            for batch in file.iter_batches(1024):
                yield from _strings(batch.to_pylist())
    except (pa.ArrowException, OSError, OverflowError, ValueError) as error:  # also of values that Python has not
        raise InputError(f"{path}: damaged ({str(error).splitlines()[0]}); fetch the file again") from None


def _is_tagged(path: Path) -> bool:
    """Whether the last column of nearly all its lines marks entities, as in files of tagged words."""
    rows = [line.split() for line in itertools.islice((line for line in _lines(path) if line.strip()), _LOOKED_AT)]
    return sum(len(row) > 1 and _ENTITY.fullmatch(row[-1]) is not None for row in rows) > _TAGGED * len(rows)


_ENTITY = re.compile(r"O|[BIESLU]-.+")
_LOOKED_AT, _TAGGED = 1000, 0.9


READERS = {
    ".txt": lambda path: _paragraphs(_words(path) if _is_tagged(path) else _lines(path)),
    ".conll": lambda path: _paragraphs(_words(path)),
    ".tsv": lambda path: (
        _paragraphs(_words(path)) if _is_tagged(path) else (cell for line in _lines(path) for cell in line.split("\t"))
    ),
    ".csv": _cells,
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _columns,
}
