"""`.txt`: UTF-8, one paragraph a line, a blank line ends a document; where lines are wrapped, the file is one
document."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bertcore.corpus.sources.formats.blocks import NOT_UTF8, FileBlock, Format, cut_bytes
from bertcore.corpus.sources.source import Drops
from bertcore.errors import InputError

LONGEST_DOCUMENT = 64 << 20
"""Bytes of one document of a `.txt`, which is held in memory; more of them are a file without blank lines."""
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


FORMAT = Format(
    partial(cut_bytes, whole=_whole_texts, endless=_endless_text),
    _parse_text,
    wrapped=Format(partial(cut_bytes, whole=_whole_file, endless=_endless_file), _parse_file),
)
