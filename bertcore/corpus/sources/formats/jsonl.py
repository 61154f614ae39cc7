"""`.jsonl`: one object a line with the field `text`, or another one that is named, and optionally `id`."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bertcore.compressed import LONGEST_LINE
from bertcore.corpus.sources.formats.blocks import (
    BEYOND_JSON,
    NO_TEXT,
    NOT_JSON,
    NOT_UTF8,
    FileBlock,
    Format,
    cut_bytes,
    key_of,
)
from bertcore.corpus.sources.source import Drops
from bertcore.errors import InputError


def _whole_lines(data: bytes, last: bool) -> tuple[int, int]:
    end = len(data) if last else data.rfind(b"\n") + 1
    return end, sum(1 for line in data[:end].split(b"\n") if line.strip())


def _endless_line(path: Path, line: int, rest: bytes) -> None:
    if len(rest) > LONGEST_LINE:
        raise InputError(
            f"{path}:{line + 1}: a line of more than {LONGEST_LINE >> 20} MiB; put every record on a line of its own"
        )


def _parse(block: FileBlock, drops: Drops) -> Iterator[tuple[str, str]]:
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
            yield key_of(record.get("id"), index), record[block.column]


FORMAT = Format(partial(cut_bytes, whole=_whole_lines, endless=_endless_line), _parse)
