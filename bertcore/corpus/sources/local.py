"""Documents from local files: `.txt`, `.jsonl` and `.parquet`, plain, `.gz` or `.zst`, in bounded memory.

* `.txt`: UTF-8, one paragraph a line, a blank line ends a document.
* `.jsonl`: one object a line with the field `text` and optionally `id`.
* `.parquet`: a column `text` and optionally `id`.
"""

import glob
import json
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.compressed import compression_of, damaged, open_binary, plain_ending, plain_name, read_lines
from bertcore.corpus.documents import Document
from bertcore.corpus.sources.source import Keep, Source
from bertcore.errors import ConfigError, InputError
from bertcore.files import FULL, visible_files

logger = logging.getLogger(__name__)

NOT_UTF8, NOT_JSON, NO_TEXT, BEYOND_JSON = "not_utf8", "not_json_object", "no_text", "beyond_json"
MEANINGS = {
    NOT_UTF8: "not UTF-8",
    NOT_JSON: "line is not a JSON object",
    NO_TEXT: "no text in the field 'text'",
    BEYOND_JSON: "line has too long a number or too deep a nesting",
}
"""Of the reasons why a record is left out."""
REMEDIES = {
    NOT_UTF8: "convert the file to UTF-8",
    NOT_JSON: 'write an object on every line, such as {"text": "…"}',
    NO_TEXT: "name the field with the text 'text'",
    BEYOND_JSON: "write the numbers as strings, or leave the field out",
}
BATCH_ROWS = 256
PARQUET_BUFFER = 1 << 20
"""Bytes of a column that are read at once: by default Arrow holds the whole file."""
UNPACKED = {".gz": 4.0, ".zst": 4.0, ".parquet": 2.5}
"""About how much text a byte of a packed file holds, in bytes."""
_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SAMPLED_DOCUMENTS = 1000
"""The first of a source, by whose mean length so many documents of it are counted as bytes."""
LONGEST_DOCUMENT = 64 << 20
"""Bytes of one document of a `.txt`, which is held in memory; more of them are a file without blank lines."""


def find_files(uri: str) -> list[Path]:
    """The files that a path, a glob (`**`: any depth) or a directory names, sorted; `ConfigError` if there are none."""
    path = Path(uri).expanduser()
    if path.is_dir():
        found = [item for item in visible_files(path) if plain_ending(item) in READERS]
        if not found:
            raise ConfigError(f"{uri}: no file in this directory ends in {ENDINGS}; name another one")
        return found
    found = [path] if path.exists() else [Path(item) for item in glob.glob(str(path), recursive=True)]
    files = sorted({item for item in found if item.is_file()})  # with two `**` a glob finds a file several times
    if not files:
        raise ConfigError(
            f"{uri}: no such file, glob or directory (from {Path.cwd()}), and not `pydoc`; correct the path"
        )
    for item in files:
        if plain_ending(item) not in READERS:
            raise ConfigError(f"{item}: unknown ending, expected {ENDINGS}; convert or rename the file")
    return files


def read(uri: str, paths: list[Path], statistics: Counter[str]) -> Iterator[Document]:
    """The documents of `paths`, in that order, with the ids `FILENAME:INDEX` or `FILENAME:ID`.

    A text that is not UTF-8, a line that cannot be read as JSON and a record without text are left out, counted in
    `statistics` and the first of each file is named in the log; where the very first record of a `.txt` or `.jsonl` is
    one of them, the whole file is probably something else, and `InputError` names file and line, as it does for a
    document of more than `LONGEST_DOCUMENT` bytes in a `.txt`, and for a cut-off or damaged archive.
    """
    for path, name in zip(paths, _names(paths), strict=True):
        drops = _Drops(path, statistics)
        for key, text in READERS[plain_ending(path)](path, drops):
            # Half of a surrogate pair, which JSON can escape, has no UTF-8; cleaning takes it out of the text.
            yield Document(f"{name}:{key}".encode(errors="replace").decode(), text, uri)


class LocalSource(Source):
    """A file, a glob or a directory."""

    @property
    def files(self) -> Sequence[Path]:
        return find_files(self.uri)

    def documents(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[Document]:
        """See `read`."""
        yield from read(self.uri, list(files) or find_files(self.uri), dropped)

    def look(self) -> None:
        """Read the first record of each file, where a packed one need not be unpacked for it."""
        for path in find_files(self.uri):
            if not (plain_ending(path) == ".parquet" and compression_of(path)):
                next(READERS[plain_ending(path)](path, _Drops(path, Counter())), None)

    @property
    def unread(self) -> Sequence[Path]:
        path = Path(self.uri).expanduser()
        return [item for item in visible_files(path) if plain_ending(item) not in READERS] if path.is_dir() else ()

    def text_bytes(self, documents: int | None = None) -> float:
        whole = sum(file.stat().st_size * UNPACKED.get(file.suffix.lower(), 1.0) for file in self.files)
        if documents is None:
            return whole
        first = [
            len(document.text.encode(errors="replace"))
            for document in islice(read(self.uri, find_files(self.uri), Counter()), min(documents, SAMPLED_DOCUMENTS))
        ]
        return min(whole, documents * sum(first) / max(len(first), 1))


class _Drops:
    """Counts what is left out of one file; its first record may not be."""

    def __init__(self, path: Path, statistics: Counter[str]):
        self._path, self._statistics = path, statistics
        self._said: set[str] = set()

    def add(self, reason: str, number: int, *, first: bool) -> None:
        where = f"{self._path}:{number}: {MEANINGS[reason]}"
        if first:
            raise InputError(f"{where}, in the file's first record; {REMEDIES[reason]} (docs/corpus.md)")
        if reason not in self._said:
            logger.warning("%s; left out, and counted with all others like it", where)
            self._said.add(reason)
        self._statistics[reason] += 1


def _read_text(path: Path, drops: _Drops) -> Iterator[tuple[str, str]]:
    paragraphs: list[bytes] = []
    index = begin = size = 0
    for number, line in _lines_and_an_end(path):
        if not _is_blank(line):
            begin, size = (begin, size) if paragraphs else (number, 0)
            paragraphs.append(line)
            if (size := size + len(line)) > LONGEST_DOCUMENT:
                raise _endless(path, begin, number)
            continue
        if not paragraphs:
            continue
        text = b"\n".join(paragraphs)
        try:
            if index == 0 and len(text) - len(text.translate(None, _HIGH_BYTES)) > len(text) // 4:
                drops.add(NOT_UTF8, begin, first=True)
            yield str(index), text.decode("utf-8")
        except UnicodeDecodeError as error:
            bad = begin + error.object[: error.start].count(b"\n")
            drops.add(NOT_UTF8, bad, first=index == 0)
        paragraphs, index = [], index + 1


_HIGH_BYTES = bytes(range(9))
"""Every second one of a text in UTF-16 is one of these in most alphabets, and the whole is UTF-8, too."""


def _is_blank(line: bytes) -> bool:
    """Whether it has nothing but blanks, those of other scripts among them."""
    return not line.strip() or (not line.isascii() and not line.decode("utf-8", "replace").strip())


def _endless(path: Path, begin: int, number: int) -> InputError:
    return InputError(
        f"{path}:{number}: no blank line since line {begin}, so that one document has more than "
        f"{LONGEST_DOCUMENT >> 20} MiB; put a blank line between documents, or write them as .jsonl"
    )


def _lines_and_an_end(path: Path) -> Iterator[tuple[int, bytes]]:
    """The numbered lines without a byte-order mark, and a blank one that ends the last document."""
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
    yield number + 1, b""


def _read_json_lines(path: Path, drops: _Drops) -> Iterator[tuple[str, str]]:
    index = -1
    for number, line in _lines_and_an_end(path):
        if not line.strip():
            continue
        index += 1
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            reasons = {UnicodeDecodeError: NOT_UTF8, json.JSONDecodeError: NOT_JSON}
            drops.add(reasons.get(type(error), BEYOND_JSON), number, first=index == 0)
            continue
        if not isinstance(record, dict):
            drops.add(NOT_JSON, number, first=index == 0)
        elif not isinstance(record.get("text"), str):
            is_other = "text" not in record or record["text"] is not None  # than a text or none
            drops.add(NO_TEXT, number, first=index == 0 and is_other)
        else:
            yield _key(record.get("id"), index), record["text"]


def _read_parquet(path: Path, drops: _Drops) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as directory:
        try:
            plain = _unpacked(path, Path(directory)) if compression_of(path) else path
            with pq.ParquetFile(plain, pre_buffer=False, buffer_size=PARQUET_BUFFER) as file:
                yield from _rows(path, file, drops)
        except (pa.ArrowException, OSError) as error:
            if getattr(error, "errno", None) in FULL:
                raise InputError(
                    f"{path}: no space left below {directory} to unpack it; free some, or set TMPDIR to another disk"
                ) from None
            raise damaged(path, OSError(str(error).splitlines()[0])) from None


def _rows(path: Path, file: pq.ParquetFile, drops: _Drops) -> Iterator[tuple[str, str]]:
    types = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
    for name in ("text", "id"):
        if file.schema_arrow.names.count(name) > 1:
            raise InputError(f"{path}: found several columns {name!r}, expected one; rename the others")
    if not _is_text(types.get("text")):
        columns = ", ".join(f"{name} ({type_})" for name, type_ in types.items())
        raise InputError(
            f"{path}: no text column 'text' among {columns or 'none'}; rename the column of the texts, or write it as "
            "strings"
        )
    index = -1
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=[name for name in ("text", "id") if name in types]):
        # Parquet promises UTF-8, but not every writer keeps it, and Arrow does not look: so texts are read as bytes.
        texts = _as_bytes(batch.column("text")).to_pylist()
        for text, id_ in zip(texts, _ids(batch), strict=True):
            index += 1
            try:
                if text is None:
                    drops.add(NO_TEXT, index + 1, first=False)
                else:
                    yield _key(id_, index), text.decode()
            except UnicodeDecodeError:
                drops.add(NOT_UTF8, index + 1, first=False)


def _ids(batch: pa.RecordBatch) -> list[Any]:
    if "id" not in batch.schema.names:
        return [None] * batch.num_rows
    column = batch.column("id")
    if not _is_text(column.type):
        return column.to_pylist()
    ids = _as_bytes(column).to_pylist()
    return [None if id_ is None else id_.decode(errors="replace") for id_ in ids]


def _key(id_: Any, index: int) -> str:
    """What a document is called in its file: its id, or where it has none, its number."""
    return str(index if id_ is None else id_)


def _is_text(type_: Any) -> bool:
    """Strings, as bytes too, and the dictionaries of them that pandas writes of its categories."""
    if type_ is not None and pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return type_ in _TEXTS


def _as_bytes(column: pa.Array) -> pa.Array:
    decoded = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return decoded.cast(pa.large_binary())


def _unpacked(path: Path, directory: Path) -> Path:
    """Parquet is read from its end, so a packed file is first unpacked, on disk and not in memory."""
    target = directory / plain_name(path)
    with open_binary(path) as packed, target.open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)
    return target


def _names(paths: Sequence[Path]) -> list[str]:
    """What each file is called in its documents' ids: its name, or where two share one, its path below their common
    folder; always without the ending of a compression, so that packing a file moves no document in the split."""
    names = [plain_name(path) for path in paths]
    if len(set(names)) == len(names):
        return names
    root = os.path.commonpath([path.absolute().parent for path in paths])
    return [(path.absolute().relative_to(root).parent / plain_name(path)).as_posix() for path in paths]


READERS: dict[str, Callable[[Path, _Drops], Iterator[tuple[str, str]]]] = {
    ".txt": _read_text,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}
ENDINGS = ", ".join(READERS) + " (also .gz, .zst)"
