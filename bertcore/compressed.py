"""Plain, `.gz` and `.zst` files read alike, as streams of bounded memory, with an error for a cut-off or damaged one.

pyarrow unpacks both formats: unlike the readers of `zstandard`, it says when a stream ends too early, and it accepts
the window of 2^27 bytes that `zstd --long=27` writes.
"""

import io
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from bertcore.errors import InputError
from bertcore.files import visible_files

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
BUFFER_BYTES = 1 << 20
LONGEST_LINE = 256 << 20
"""Bytes of a line, which is held in memory; a longer one is no line of text."""


def plain_name(path: Path) -> str:
    """The file's name without the ending of its compression: `a.txt` for `a.txt.zst`."""
    return path.stem if compression_of(path) else path.name


def plain_ending(path: Path) -> str:
    """The ending below that of the compression, in small letters: `.txt` for `A.TXT.gz`."""
    return Path(plain_name(path)).suffix.lower()


def compression_of(path: Path) -> str | None:
    """What `path` is packed with, by its ending; None where it is not."""
    return COMPRESSIONS.get(path.suffix.lower())


def refuse_directory(path: Path) -> None:
    """`InputError` where a directory stands in the place of a file, which has no ending that could be looked at."""
    if path.is_dir():
        raise InputError(f"{path}: found a directory, expected a file; name one of those in it")


def open_binary(path: Path) -> BinaryIO:
    """The unpacked bytes of `path`. Reading a cut-off or damaged archive raises `OSError`; see `read_lines`."""
    refuse_directory(path)
    if path.is_fifo():
        raise InputError(f"{path}: found a pipe, expected a file, which is read more than once; save it as one")
    if not path.is_file():
        raise InputError(f"{path}: no such file; correct the path")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: this user may not read it; correct its permissions (chmod)")
    packed = compression_of(path)
    if packed is None:
        return path.open("rb", buffering=BUFFER_BYTES)
    if not path.stat().st_size:
        raise damaged(path, OSError("no byte in it"))
    stream = pa.input_stream(str(path), compression=packed)
    return cast(BinaryIO, io.BufferedReader(stream, BUFFER_BYTES))


def read_lines(path: Path, *, ends: bool = False) -> Iterator[bytes]:
    """The lines of `path`, split at newlines only and, but for `ends`, without them; one line is held at a time, and
    one of more than `LONGEST_LINE` bytes is an error."""
    number = 0
    with open_binary(path) as file:
        try:
            for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), b""), start=1):
                if len(line) > LONGEST_LINE:
                    raise InputError(
                        f"{path}:{number}: a line of more than {LONGEST_LINE >> 20} MiB; put every record on a line of "
                        "its own"
                    )
                yield line if ends else line.rstrip(b"\r\n")
        except OSError as error:
            raise damaged(path, error, f" after line {number}") from None


def read_bytes(path: Path) -> bytes:
    """All unpacked bytes of `path`."""
    with open_binary(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise damaged(path, error) from None


def read_text(path: Path) -> str:
    """All of `path` as UTF-8, without a byte-order mark."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; convert the file to UTF-8") from None


def read_json(path: Path) -> Any:
    """The one JSON value that `path` holds."""
    try:
        return parse_json(read_text(path))
    except ValueError as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path}{line}: not JSON ({getattr(error, 'msg', error)}); correct the file") from None


def json_lines(path: Path, expected: str) -> Iterator[tuple[str, Any]]:
    """FILE:LINE and value of each line of a file of JSON lines; of a directory those of all `visible_files` that end in
    .jsonl or .json (also .gz, .zst), or of its only one. `InputError` says of a line that is none what is `expected`.
    """
    there = visible_files(path) if path.is_dir() else [path]
    files = there if len(there) == 1 else [file for file in there if plain_ending(file) in (".jsonl", ".json")]
    for file in files:
        for number, line in enumerate(read_lines(file), 1):
            if line.strip():
                where = f"{file}:{number}"
                try:
                    yield where, parse_json(line.decode("utf-8-sig"))
                except ValueError as error:
                    raise InputError(f"{where}: not JSON ({error}); expected an object with {expected}") from None


def json_object(path: Path) -> dict[str, Any]:
    """The one JSON object that `path` holds; empty where there is no such file, or another value in it."""
    found = read_json(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def parse_json(text: str) -> Any:
    """The JSON value that `text` is; `ValueError` for what is none, or cannot be kept: too deep a nesting, numbers of
    thousands of digits, halves of surrogate pairs, which JSON can escape and UTF-8 does not have."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("too deep a nesting") from None
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair") from None
    return value


def damaged(path: Path, error: OSError, where: str = "") -> InputError:
    """What to raise for `error` of a stream that `open_binary` gave."""
    return InputError(f"{path}: cut off or damaged{where} ({error}); fetch or pack the file again")
