"""What becomes of a row that cannot be used, whatever the format: it is named and ends the stage, or it is counted."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bertcore.errors import InputError

OnError: TypeAlias = Literal["strict", "skip"]
"""`strict`: the first bad row raises `InputError`; `skip`: bad rows are left out (or mended) and counted by reason."""

WRONG_COLUMNS, NO_LABEL, UNKNOWN_LABEL = "wrong number of columns", "no label", "unknown label"
UNSEEN_LABEL = "label never seen in training"
EMPTY_TEXT, NOT_TEXT, NOT_UTF8 = "empty text", "not a text", "not UTF-8"


class BadRowError(Exception):
    """What is wrong with one row, and the reason that it is counted under when it is skipped."""

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class BadRows:
    """The bad rows of one task's files."""

    on_error: OnError = "strict"
    remedy: str = "correct it or skip bad rows (on_error: skip)"
    """What `strict` advises."""
    counts: Counter[str] = field(default_factory=Counter)
    """Reason -> rows."""

    def add(self, where: str, bad: BadRowError, *, always_skipped: bool = False) -> None:
        """Count the row at `where` (FILE:LINE), or raise `InputError` for it unless such rows are to be skipped."""
        if self.on_error == "strict" and not always_skipped:
            raise InputError(f"{where}: {bad}; {self.remedy}") from None
        self.counts[bad.reason] += 1


def has_words(text: Iterable[str]) -> bool:
    """Whether a text, or one of several, has a character that BERT's cleaning leaves: any but white space, control,
    format and private-use characters and U+FFFD."""
    return any(
        not (character.isspace() or character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co"))
        for part in text  # a character, of one text
        for character in part
    )


def decode(line: bytes, *, first: bool = False) -> str:
    """`line` as text, of a file's first line without a byte-order mark; `BadRowError` where it is not UTF-8."""
    try:
        return line.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise BadRowError(NOT_UTF8, f"byte {error.start} of the row is not UTF-8, expected UTF-8") from None
