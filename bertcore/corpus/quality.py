"""Filters between a source's text and the corpus, each with a reason to count by: some look at a line, the others at a
document.

The thresholds that others use are those of C4 (Raffel et al. 2020, section 2.2) and Gopher (Rae et al. 2021, appendix
A.1.1); here all of them are off, but for the share of letters.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from bertcore.config import within
from bertcore.words import UNSPACED

Filter = Callable[[str], str | None]
"""Why a line or a document is left out, a word that is the same whatever the threshold; None where it stays."""

STOP_WORDS = frozenset(["the", "be", "to", "of", "and", "that", "have", "with"])
BOILERPLATE = re.compile(
    r"\b(?:(?:privacy|cookies?) policy|terms (?:of (?:use|service)|and conditions)|all rights reserved|"
    r"(?:enable|requires|activate) (?:javascript|cookies)|(?:subscribe|sign up) (?:to|for) our|accept (?:all )?cookies|"
    r"click here to|share (?:this|on) (?:facebook|twitter|article|page)|lorem ipsum)\b",
    re.IGNORECASE,
)
_ASCII, _ASCII_LETTERS = bytes(range(128)), string.ascii_letters.encode()
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
# Signs of scripts without blanks one by one, and what else stands between blanks and them, without their punctuation.
_PUNCTUATION = "\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_WORDS = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}{_PUNCTUATION}]+")
# The bytes that UTF-8 begins a character with from U+0800 on, general punctuation aside: looking for them is ten times
# as fast as for the characters.
_LEADS = bytes([0xE0, 0xE1, *range(0xE3, 0xF5)])


@dataclass(frozen=True, kw_only=True)
class QualityConfig:
    """Section `corpus.quality` of params.yaml. Lines go first, then documents are judged by what is left."""

    drop_boilerplate_lines: bool = False
    """Leave out lines with phrases of web pages' menus and notices, such as "privacy policy"."""
    boilerplate: list[str] | None = None
    """These phrases, in small or capital letters; None: English ones."""
    max_line_characters: int | None = None
    """Leave out longer lines, such as packed code or data."""
    max_repeated_line_share: float | None = None
    """Drop documents in which more of the lines than this have stood before (Gopher: 0.3)."""
    min_letter_share: float = 0.5
    """Drop documents in which fewer of the non-whitespace characters are letters, or vowel signs and other marks on
    them."""
    max_words: int | None = None
    """Drop documents of more words (Gopher: 100,000)."""
    min_mean_word_length: float | None = None
    """Drop documents whose words have fewer characters on average (Gopher: 3). In scripts without blanks between words
    every character is one: null there."""
    max_mean_word_length: float | None = None
    """Drop documents whose words have more characters on average (Gopher: 10)."""
    min_stop_words: int = 0
    """Drop documents with fewer different ones of the `stop_words` (Gopher: 2)."""
    stop_words: list[str] | None = None
    """Words that nearly every text has, as blanks part them; None: eight English ones, as Gopher has them."""

    def __post_init__(self) -> None:
        for name in ("max_repeated_line_share", "min_letter_share"):
            within(self, name, "a share between 0 and 1", least=0, most=1)
        for name in ("max_line_characters", "max_words"):
            within(self, name, "at least 1, or null for no limit", least=1)
        for name in ("min_mean_word_length", "max_mean_word_length"):
            within(self, name, "more than 0 characters, or null for no limit", above=0)
        least, most = self.min_mean_word_length, self.max_mean_word_length
        if least is not None and most is not None and least > most:
            raise ValueError(
                f"min_mean_word_length: found {least} with max_mean_word_length {most}, which drop every document; "
                "expected the least to be the smaller one"
            )
        most_words = len(self._stop_words)
        within(self, "min_stop_words", f"0 to {most_words}, the stop words there are", least=0, most=most_words)
        for name, key, is_on in (
            ("boilerplate", "drop_boilerplate_lines", self.drop_boilerplate_lines),
            ("stop_words", "min_stop_words", self.min_stop_words > 0),
        ):
            given = getattr(self, name)
            if given is not None and not is_on:
                raise ValueError(f"{name}: found {given} without {key}, which reads them; set {key}, or {name} to null")
            if given is not None and not (given and all(each.strip() for each in given)):
                raise ValueError(f"{name}: found {given}, expected words; give some, or null for English ones")

    @property
    def _stop_words(self) -> frozenset[str]:
        return STOP_WORDS if self.stop_words is None else frozenset(each.lower() for each in self.stop_words)

    @property
    def english(self) -> list[str]:
        """The fields that are on, and have nothing but English words to go by."""
        boilerplate = self.drop_boilerplate_lines and self.boilerplate is None
        stop_words = self.min_stop_words > 0 and self.stop_words is None
        return ["boilerplate"] * boilerplate + ["stop_words"] * stop_words

    def line_filters(self) -> list[Filter]:
        """The filters of lines that are on."""
        filters: list[Filter] = [boilerplate(_phrases(self.boilerplate))] if self.drop_boilerplate_lines else []
        return filters + [too_long_line(limit) for limit in [self.max_line_characters] if limit is not None]

    def document_filters(self, min_words: int) -> list[Filter]:
        """The filters of documents that are on, the cheap ones first."""
        least, most = self.min_mean_word_length, self.max_mean_word_length
        filters: list[Filter | None] = [
            too_short(min_words),
            few_letters(self.min_letter_share) if self.min_letter_share else None,
            None if self.max_words is None else too_many_words(self.max_words),
            None if least is None and most is None else word_length(least or 0.0, most or float("inf")),
            None if self.max_repeated_line_share is None else repeated_lines(self.max_repeated_line_share),
            few_stop_words(self.min_stop_words, self._stop_words) if self.min_stop_words else None,
        ]
        return [each for each in filters if each is not None]


def keep_lines(text: str, filters: list[Filter], counts: Counter[str]) -> str:
    """`text` without the lines that a filter objects to; they are counted by reason."""
    if not filters:
        return text
    kept = []
    for line in text.split("\n"):
        if reason := first_reason(line, filters):
            counts[reason] += 1
        else:
            kept.append(line)
    return "\n".join(kept)


def first_reason(text: str, filters: list[Filter]) -> str | None:
    """Why the first filter that objects would drop `text`; None where it stays."""
    return next((reason for check in filters if (reason := check(text))), None)


def count_words(text: str) -> int:
    """Of a normalised text, where one blank or newline parts two words; splitting would take ten times its size.

    In scripts without blanks between words (`UNSPACED`) every character is one.
    """
    if _has_unspaced(text):
        return sum(1 for _ in _WORDS.finditer(text))
    return text.count(" ") + text.count("\n") + 1 if text else 0


def _has_unspaced(text: str) -> bool:
    if text.isascii():
        return False
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded.translate(None, _LEADS)) < len(encoded) and _IS_UNSPACED.search(text) is not None


def _visible(text: str) -> int:
    return len(text) - text.count(" ") - text.count("\n")


def boilerplate(phrases: re.Pattern[str]) -> Filter:
    """Of lines that say what web pages say everywhere."""
    return lambda line: "boilerplate_line" if phrases.search(line) else None


def _phrases(given: list[str] | None) -> re.Pattern[str]:
    return BOILERPLATE if given is None else re.compile("|".join(map(re.escape, given)), re.IGNORECASE)


def too_long_line(limit: int) -> Filter:
    return lambda line: "too_long_line" if len(line) > limit else None


def too_short(min_words: int) -> Filter:
    return lambda text: "too_few_words" if count_words(text) < min_words else None


def too_many_words(max_words: int) -> Filter:
    return lambda text: "too_many_words" if count_words(text) > max_words else None


def _letters(text: str) -> int:
    """Characters for which `str.isalpha` holds; those of ASCII are counted in bytes, six times as fast."""
    encoded = text.encode("utf-8", "surrogatepass")
    others = encoded.translate(None, _ASCII).decode("utf-8", "surrogatepass")
    return len(encoded) - len(encoded.translate(None, _ASCII_LETTERS)) + sum(map(str.isalpha, others))


def _marks(text: str) -> int:
    """Vowel signs, accents and the like (Unicode's categories M), which `str.isalpha` denies."""
    return sum(count for sign, count in Counter(text).items() if unicodedata.category(sign)[0] == "M")


def few_letters(share: float) -> Filter:
    """Of the characters other than blanks. Marks count, too, but few texts need them, and they take longer to count."""

    def check(text: str) -> str | None:
        letters, wanted = _letters(text), share * _visible(text)
        return "too_few_letters" if letters < wanted and letters + _marks(text) < wanted else None

    return check


def word_length(least: float, most: float) -> Filter:
    """Of words as `count_words` has them."""

    def check(text: str) -> str | None:
        mean = _visible(text) / max(count_words(text), 1)
        if mean < least:
            return "too_short_words"
        return "too_long_words" if mean > most else None

    return check


def repeated_lines(share: float) -> Filter:
    def check(text: str) -> str | None:
        lines = text.split("\n")
        repeats = len(lines) - len(set(lines))
        return "too_many_repeated_lines" if repeats > share * len(lines) else None

    return check


def few_stop_words(least: int, words: frozenset[str]) -> Filter:
    return lambda text: "too_few_stop_words" if len(words.intersection(text.lower().split())) < least else None
