"""What a word is where no tokenizer and no annotation says it, in any script."""

import sys
from functools import cache
from unicodedata import category


@cache
def letter() -> str:
    r"""A character of a word, as a pattern: one of `\w`, or a combining mark, which belongs to the letter before it:
    the vowels of Hindi, decomposed accents."""
    marks = "".join(mark for mark in map(chr, range(sys.maxunicode + 1)) if category(mark).startswith("M"))
    return rf"[\w{marks}]"
