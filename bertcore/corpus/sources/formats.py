"""The formats of local files: `.txt`, `.jsonl` and `.parquet`, plain, `.gz` or `.zst`, in bounded memory.

A file is cut into blocks of whole documents by one process, which does no more than find where they end; any other one
can tell the documents of a block.

* `.txt`: UTF-8, one paragraph a line, a blank line ends a document; where lines are wrapped, the file is one document.
* `.jsonl`: one object a line with the field `text`, or another one that is named, and optionally `id`.
* `.parquet`: a column `text`, or another one that is named, and optionally `id`.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.compressed import LONGEST_LINE, compression_of, damaged, open_binary, plain_ending
from bertcore.corpus.documents import Document
from bertcore.corpus.sources.source import BLOCK, Block, Drops
from bertcore.errors import InputError
from bertcore.files import FULL

NOT_UTF8, NOT_JSON, NO_TEXT, BEYOND_JSON = "not_utf8", "not_json_object", "no_text", "beyond_json"
MEANINGS = {
    NOT_UTF8: "not UTF-8",
    NOT_JSON: "line is not a JSON object",
    NO_TEXT: "no text in the field {column!r}",
    BEYOND_JSON: "line has too long a number or too deep a nesting",
}
"""Of the reasons why a record is left out."""
REMEDIES = {
    NOT_UTF8: "convert the file to UTF-8",
    NOT_JSON: 'write an object on every line, such as {{"text": "…"}}',
    NO_TEXT: "name the field that has it: {{uri: {uri}, column: NAME}}",
    BEYOND_JSON: "write the numbers as strings, or leave the field out",
}
COLUMN = "text"
"""The field or column of the texts, unless another one is named."""
BATCH_ROWS = 256
_MOST_ROWS = 65_536
"""Of a block, where they have hardly any text."""
PARQUET_BUFFER = 1 << 20
"""Bytes of a column that are read at once: by default Arrow holds the whole file."""
_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_DOCUMENT = 64 << 20
"""Bytes of one document of a `.txt`, which is held in memory; more of them are a file without blank lines."""


@dataclass(frozen=True)
class FileBlock(Block):
    """Whole documents of a file, as they lie in it."""

    uri: str
    """The source that the file is of."""
    path: str
    name: str
    """What the file is called in its documents' ids."""
    data: Any
    """What the format's `parse` takes."""
    size: int
    index: int
    """Records of the file before these."""
    line: int
    """Lines of the file before these."""
    wrapped: bool
    """Whether the lines of the file are wrapped."""
    column: str
    """That of the texts, where the format has any."""

    def documents(self, drops: Drops) -> Iterator[Document]:
        """With the ids `FILENAME:INDEX` or `FILENAME:ID`.

        A text that is not UTF-8, a line that cannot be read as JSON and a record without text are left out; where the
        very first record of a `.txt` or `.jsonl` is one of them, the whole file is probably something else, and
        `InputError` names file and line.
        """
        for key, text in format_of(Path(self.path), wrapped=self.wrapped).parse(self, drops):
            # Half of a surrogate pair, which JSON can escape, has no UTF-8; cleaning takes it out of the text.
            yield Document(f"{self.name}:{key}".encode(errors="replace").decode(), text, self.uri)

    def drop(self, drops: Drops, reason: str, number: int, *, first: bool) -> None:
        """Leave out the record at line `number`; the file's first one may not be."""
        path = Path(self.path)
        file = path.resolve() if path.is_symlink() else path  # stage inputs links the user's own
        meaning, remedy = (said[reason].format(uri=self.uri, column=self.column) for said in (MEANINGS, REMEDIES))
        where = f"{file}:{number}: {meaning}"
        if first:
            raise InputError(f"{where}, in the file's first record; {remedy} (docs/corpus.md)")
        said = f"{where}; left out, and counted with all others like it: {remedy} to keep them"
        drops.said.setdefault(f"{self.path} {reason}", said)
        drops.counts[reason] += 1


def cut(uri: str, path: Path, name: str, *, wrapped: bool, column: str) -> Iterator[FileBlock]:
    """The blocks of a file; `InputError` for a cut-off or damaged archive, and for one without an end of a document in
    more than `LONGEST_DOCUMENT` bytes."""
    index = line = 0
    for data, size, records, lines in format_of(path, wrapped=wrapped).cut(path, column):
        yield FileBlock(uri, str(path), name, data, size, index, line, wrapped, column)
        index, line = index + records, line + lines


_Part = tuple[Any, int, int, int]
"""Data of a block, the bytes, records and lines in it."""


@dataclass(frozen=True)
class Format:
    """One of local files."""

    cut: Callable[[Path, str], Iterator[_Part]]
    """The parts of a file; those of columns hold no other text than that of the column named."""
    parse: Callable[[FileBlock, Drops], Iterator[tuple[str, str]]]
    """Key and text of each document."""


def _cut_bytes(
    path: Path,
    _column: str,
    whole: Callable[[bytes, bool], tuple[int, int]],
    endless: Callable[[Path, int, bytes], None],
) -> Iterator[_Part]:
    """`whole` says of some bytes, and whether they are the last ones, where the last whole record ends, and how many
    there are. `endless` is asked about bytes without one, and the number of lines before them."""
    rest, line = b"", 0
    with open_binary(path) as file:
        try:
            while chunk := file.read(max(BLOCK, len(rest) // 4)):  # what is looked through again stays in proportion
                rest = rest + chunk if rest or line else chunk.removeprefix(BYTE_ORDER_MARK)
                end, records = whole(rest, False)
                if not end:
                    endless(path, line, rest)
                    continue
                data, rest = rest[:end], rest[end:]
                lines = data.count(b"\n")
                yield data, len(data), records, lines
                line += lines
        except OSError as error:
            raise damaged(path, error, f" after line {line}") from None
    if rest:
        _, records = whole(rest, True)
        yield rest, len(rest), records, rest.count(b"\n")


_BLANK = (
    rb"(?:[ \t\r\x0b\x0c]++|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)*+"
)
"""Of the scripts of the world. Possessive, as otherwise each blank of a run would be remembered."""
_BLANK_LINE = re.compile(_BLANK)
_BLANK_LINES = re.compile(rb"(?:" + _BLANK + rb"\n)*+")
_END_OF_TEXT = re.compile(rb"\n(?:" + _BLANK + rb"\n)++")


def _whole_texts(data: bytes, last: bool) -> tuple[int, int]:
    end, records = _leading(data), 0
    for found in _END_OF_TEXT.finditer(data, end):
        end, records = found.end(), records + 1
    if last and not all(map(_is_blank, data[end:].split(b"\n"))):
        records += 1
    return end, records


def _leading(data: bytes) -> int:
    """Where the blank lines end that `data` begins with."""
    found = _BLANK_LINES.match(data)
    return found.end() if found else 0


def _endless_text(path: Path, line: int, rest: bytes) -> None:
    lines = rest.count(b"\n")
    if not line + lines and b"\r" in rest[:-1]:
        raise InputError(f"{path}: lines end in CR alone, expected LF or CR LF; convert them (mac2unix)")
    if len(rest) - lines > LONGEST_DOCUMENT:
        raise InputError(
            f"{path}:{line + lines + 1}: no blank line since line {line + 1}, so that one document has more than "
            f"{LONGEST_DOCUMENT >> 20} MiB; put a blank line between documents, or write them as .jsonl"
        )


def _parse_text(block: FileBlock, drops: Drops) -> Iterator[tuple[str, str]]:
    paragraphs: list[bytes] = []
    index, begin = block.index, 0
    for number, line in enumerate([*block.data.split(b"\n"), b""], start=block.line + 1):
        if not _is_blank(line):
            begin = begin if paragraphs else number
            paragraphs.append(line.rstrip(b"\r"))
        elif paragraphs:
            yield from _decoded(block, drops, b"\n".join(paragraphs), index, begin)
            paragraphs, index = [], index + 1


def _decoded(block: FileBlock, drops: Drops, text: bytes, index: int, begin: int) -> Iterator[tuple[str, str]]:
    """The document `index`, which begins at line `begin`, unless it is not UTF-8."""
    try:
        if index == 0 and len(text) - len(text.translate(None, _HIGH_BYTES)) > len(text) // 4:
            block.drop(drops, NOT_UTF8, begin, first=True)
        yield str(index), text.decode("utf-8")
    except UnicodeDecodeError as error:
        block.drop(drops, NOT_UTF8, begin + text[: error.start].count(b"\n"), first=index == 0)


_HIGH_BYTES = bytes(range(9))
"""Every second one of a text in UTF-16 is one of these in most alphabets, and the whole is UTF-8, too."""


def _is_blank(line: bytes) -> bool:
    return not line.strip() or (not line.isascii() and _BLANK_LINE.fullmatch(line) is not None)


def _whole_file(data: bytes, last: bool) -> tuple[int, int]:
    return (len(data), 1) if last else (0, 0)


def _endless_file(path: Path, line: int, rest: bytes) -> None:
    if len(rest) > LONGEST_DOCUMENT:
        raise InputError(
            f"{path}: more than {LONGEST_DOCUMENT >> 20} MiB, and as its lines are wrapped it is one document; divide "
            "it, or write its documents as .jsonl"
        )


def _parse_file(block: FileBlock, drops: Drops) -> Iterator[tuple[str, str]]:
    if not all(map(_is_blank, block.data.split(b"\n"))):
        yield from _decoded(block, drops, block.data, 0, 1)


def _whole_lines(data: bytes, last: bool) -> tuple[int, int]:
    end = len(data) if last else data.rfind(b"\n") + 1
    return end, sum(1 for line in data[:end].split(b"\n") if line.strip())


def _endless_line(path: Path, line: int, rest: bytes) -> None:
    if len(rest) > LONGEST_LINE:
        raise InputError(
            f"{path}:{line + 1}: a line of more than {LONGEST_LINE >> 20} MiB; put every record on a line of its own"
        )


def _parse_json_lines(block: FileBlock, drops: Drops) -> Iterator[tuple[str, str]]:
    index = block.index - 1
    for number, line in enumerate(block.data.split(b"\n"), start=block.line + 1):
        if not line.strip():
            continue
        index += 1
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            reasons = {UnicodeDecodeError: NOT_UTF8, json.JSONDecodeError: NOT_JSON}
            block.drop(drops, reasons.get(type(error), BEYOND_JSON), number, first=index == 0)
            continue
        if not isinstance(record, dict):
            block.drop(drops, NOT_JSON, number, first=index == 0)
        elif not isinstance(record.get(block.column), str):
            is_other = block.column not in record or record[block.column] is not None  # than a text or none
            block.drop(drops, NO_TEXT, number, first=index == 0 and is_other)
        else:
            yield _key(record.get("id"), index), record[block.column]


def _cut_parquet(path: Path, column: str) -> Iterator[_Part]:
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


def _parse_rows(block: FileBlock, drops: Drops) -> Iterator[tuple[str, str]]:
    for index, (id_, text) in enumerate(block.data, start=block.index):
        try:
            if text is None:
                block.drop(drops, NO_TEXT, index + 1, first=False)
            else:
                yield _key(id_, index), text.decode()
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


FORMATS = {
    ".txt": Format(partial(_cut_bytes, whole=_whole_texts, endless=_endless_text), _parse_text),
    ".jsonl": Format(partial(_cut_bytes, whole=_whole_lines, endless=_endless_line), _parse_json_lines),
    ".parquet": Format(_cut_parquet, _parse_rows),
}
_WRAPPED_TEXT = Format(partial(_cut_bytes, whole=_whole_file, endless=_endless_file), _parse_file)
ENDINGS = ", ".join(FORMATS) + " (also .gz, .zst)"


def format_of(path: Path, *, wrapped: bool) -> Format:
    """That of a file, by its ending."""
    ending = plain_ending(path)
    return _WRAPPED_TEXT if wrapped and ending == ".txt" else FORMATS[ending]
