"""Small composable steps between a source's text and the corpus: what is changed, and what is dropped and why."""

import re
import unicodedata
from collections.abc import Callable, Iterator

from sentencex import segment

# C0 and C1 controls other than tab and newline, zero-width and bidirectional marks, the byte-order mark, U+FFFD.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufffd]")
_BLANKS = re.compile(r"[^\S\n]+")


def normalise(text: str) -> str:
    """NFC, without invisible characters, one blank between words, no blank lines."""
    text = _INVISIBLE.sub("", unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")))
    lines = (line.strip() for line in _BLANKS.sub(" ", text).split("\n"))
    return "\n".join(line for line in lines if line)


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of all paragraphs (lines) of `text`, in order, none of them empty."""
    return [
        sentence
        for paragraph in text.split("\n")
        for part in segment(language, paragraph)
        if (sentence := part.strip())
    ]


def too_short(min_words: int) -> Callable[[str], str | None]:
    """A filter that drops texts of fewer than `min_words` words."""
    return lambda text: f"fewer than {min_words} words" if len(text.split(None, min_words)) < min_words else None


def no_letters(text: str) -> str | None:
    """A filter that drops texts in which fewer than half of the non-blank characters are letters."""
    visible = sum(not character.isspace() for character in text)
    return "fewer than half of the characters are letters" if 2 * sum(map(str.isalpha, text)) < visible else None


def first_reason(text: str, filters: list[Callable[[str], str | None]]) -> str | None:
    """Why the first filter that objects would drop `text`; None where it stays."""
    reasons: Iterator[str | None] = (check(text) for check in filters)
    return next((reason for reason in reasons if reason), None)
