"""The formats of local files, plain, `.gz` or `.zst`, in bounded memory: a module for each.

A file is cut into blocks of whole documents by one process, which does no more than find where they end; any other one
can tell the documents of a block.
"""

from collections.abc import Iterator
from pathlib import Path

from bertcore.compressed import plain_ending
from bertcore.corpus.sources.formats import jsonl, parquet, txt
from bertcore.corpus.sources.formats.blocks import FileBlock

COLUMN = "text"
"""The field or column of the texts, unless another one is named."""


def cut(uri: str, path: Path, name: str, *, wrapped: bool, column: str) -> Iterator[FileBlock]:
    """The blocks of a file; `InputError` for a cut-off or damaged archive, and for one without an end of a document in
    more than `LONGEST_DOCUMENT` bytes."""
    index = line = 0
    form = FORMATS[plain_ending(path)]
    if wrapped and form.wrapped:
        form = form.wrapped
    for data, size, records, lines in form.cut(path, column):
        yield FileBlock(uri, str(path), name, data, size, index, line, column, form.parse)
        index, line = index + records, line + lines


FORMATS = {".txt": txt.FORMAT, ".jsonl": jsonl.FORMAT, ".parquet": parquet.FORMAT}
ENDINGS = ", ".join(FORMATS) + " (also .gz, .zst)"
