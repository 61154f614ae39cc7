"""What a word is where no tokenizer and no annotation says it, in any script."""

import re
import sys
from functools import cache
from unicodedata import category

_JOINERS = "\u00ad\u200c\u200d"
"""The soft hyphen, and what parts or joins the letters of a word in Persian and in scripts of India; none is seen."""


@cache
def letter() -> str:
    r"""A character of a word, as a pattern: one of `\w`, a combining mark, which belongs to the letter before it (the
    vowels of Hindi, decomposed accents), or what joins letters and is not seen."""
    return rf"[\w{_all_of('M')}{_JOINERS}]"


@cache
def sign() -> str:
    """A character that is a word by itself, as a pattern: neither of a word nor blank, and one that is seen."""
    return rf"[^\w\s{_all_of('M', 'Cc', 'Cf')}]"


def _all_of(*categories: str) -> str:
    """All characters of Unicode categories that begin so, for a set of a pattern."""
    return re.escape(
        "".join(each for each in map(chr, range(sys.maxunicode + 1)) if category(each).startswith(categories))
    )
