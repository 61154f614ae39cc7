"""What a word is where no tokenizer and no annotation says it, in any script."""

import re
import sys
from functools import cache
from unicodedata import category

_HAN_AND_KANA = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
UNSPACED = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1b00-\u1b7f\ua000-\ua4cf\ua980-\ua9ff\uaa60-\uaa7f" + _HAN_AND_KANA
"""The characters of scripts without blanks between words, for a set of a pattern: Thai, Lao, Tibetan, Burmese, Khmer,
Balinese, Yi, Javanese, Chinese and Japanese."""
UNSPACED_SENTENCES = "\u3001-\u303f\uff01-\uff65" + _HAN_AND_KANA
"""Those, with their punctuation, of the scripts that have no blanks between sentences, either: Chinese and Japanese."""
_JOINERS = "\u00ad\u200c\u200d"
"""The soft hyphen, and what parts or joins the letters of a word in Persian and in scripts of India; none is seen."""


@cache
def letter() -> str:
    r"""A character of a word, as a pattern: one of `\w`, a combining mark, which belongs to the letter before it (the
    vowels of Hindi, decomposed accents), or what joins letters and is not seen."""
    return rf"[\w{_all_of('M')}{_JOINERS}]"


@cache
def word() -> str:
    """A word as a pattern: letters in a row, or one character of a script without blanks between words."""
    return rf"[{UNSPACED}]|(?:(?![{UNSPACED}]){letter()})+"


@cache
def sign() -> str:
    """A character that is a word by itself, as a pattern: neither of a word nor blank, and one that is seen."""
    return rf"[^\w\s{_all_of('M', 'Cc', 'Cf')}]"


def _all_of(*categories: str) -> str:
    """All characters of Unicode categories that begin so, for a set of a pattern."""
    return re.escape(
        "".join(each for each in map(chr, range(sys.maxunicode + 1)) if category(each).startswith(categories))
    )
