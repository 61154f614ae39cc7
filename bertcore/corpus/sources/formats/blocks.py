"""What the formats of local files share: a block of whole documents of a file, and where a file may be cut."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from bertcore.compressed import damaged, open_binary
from bertcore.corpus.documents import Document
from bertcore.corpus.sources.source import BLOCK, Block, Drops
from bertcore.errors import InputError

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
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class FileBlock(Block):
    """Whole documents of a file, as they lie in it."""

    uri: str
    """The source that the file is of."""
    path: str
    name: str
    """What the file is called in its documents' ids."""
    data: Any
    """What `parse` takes."""
    size: int
    index: int
    """Records of the file before these."""
    line: int
    """Lines of the file before these."""
    column: str
    """That of the texts, where the format has any."""
    parse: "Parse"
    """Of the format."""

    def documents(self, drops: Drops) -> Iterator[Document]:
        """With the ids `FILENAME:INDEX` or `FILENAME:ID`.

        A text that is not UTF-8, a line that cannot be read as JSON and a record without text are left out; where the
        very first record of a `.txt` or `.jsonl` is one of them, the whole file is probably something else, and
        `InputError` names file and line.
        """
        for key, text in self.parse(self, drops):
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


Parse: TypeAlias = Callable[[FileBlock, Drops], Iterator[tuple[str, str]]]
"""Key and text of each document of a block."""
Part: TypeAlias = tuple[Any, int, int, int]
"""Data of a block, the bytes, records and lines in it."""


@dataclass(frozen=True)
class Format:
    """One of local files."""

    cut: Callable[[Path, str], Iterator[Part]]
    """The parts of a file; those of columns hold no other text than that of the column named."""
    parse: Parse
    wrapped: "Format | None" = None
    """What it is where the lines of the file are wrapped, if that makes a difference."""


def cut_bytes(
    path: Path,
    _column: str,
    whole: Callable[[bytes, bool], tuple[int, int]],
    endless: Callable[[Path, int, bytes], None],
) -> Iterator[Part]:
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


def key_of(id_: Any, index: int) -> str:
    """What a document is called in its file: its id, or where it has none, its number."""
    return str(index if id_ is None else id_)
