"""What is changed in a source's text before it enters the corpus: what cannot be seen, blanks, and sentences."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise

from sentencex import segment

from bertcore.words import UNSPACED

# C0 and C1 controls other than white space, zero-width and bidirectional marks, halves of surrogate pairs (which
# have no UTF-8), the byte-order mark, U+FFFD.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufffd]"
)
# Blanks that are not one space already: replacing single spaces, too, would take 20 bytes for each byte of a document.
_BLANKS = re.compile(r"[^\S\n]{2,}|[^\S\n ]")
# Most texts have neither a blank of this kind nor two spaces: to look for both is four times as fast as to replace.
_UNUSUAL_BLANK = re.compile(r"[^\S\n ]")

LANGUAGES = "am ar bg bn ca da de el en es fi fr gu hi hy it ja kk kn ml mr my nl pa pl pt ru sk ta te uk"
"""Codes for which sentencex 1.0 has rules of its own; it keeps no list to ask for, and splits by those of another
language, mostly English, whatever else it is given."""

MARKS_ARE_LETTERS = "as bn bo gu hi ja km kn lo ml mr my ne or pa sa si ta te th vi"
"""Codes of languages whose combining marks are vowels, final consonants, voicing and tones: without them other words
stand there."""

LONGEST_PARAGRAPH = 20_000
"""Characters that the splitter is given at once; a paragraph of megabytes would cost it time and memory without end."""


def normalise(text: str) -> str:
    """NFC, without invisible characters, one blank between words, no blank lines."""
    text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    if "  " in text or _UNUSUAL_BLANK.search(text):
        text = _BLANKS.sub(" ", text)
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def unwrap(text: str) -> str:
    """A text whose lines end where its page did, with every paragraph, which a blank line ends, in one line.

    A word that is divided there is put together. A hyphen stays beside a capital letter or a digit (Rhein-Main), in a
    word that has it elsewhere in the text (well-known), and with a blank where a part is left out (vor- und nachher).
    Lines are joined without a blank in scripts that have none between words.
    """
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _ENDS_OF_LINES.sub("\n", text)
    hyphenated = set(_HYPHENATED.findall(text))

    def whole(divided: re.Match[str]) -> str:
        before, hyphen, after = divided.groups()
        is_letter = len(after) == 1 and after.islower()  # "y", "e", "и": no word is divided before its last letter
        if hyphen != "\u00ad" and (is_letter or _AND.fullmatch(after)):
            return f"{before}{hyphen} "
        is_divided = before[-1].isalpha() and after[0].islower() and before + hyphen + after not in hyphenated
        return before if hyphen == "\u00ad" or is_divided else before + hyphen

    paragraphs = _BLANK_LINES.split(_DIVIDED.sub(whole, text))
    return "\n".join(_WITHOUT_BLANKS.sub("", paragraph).replace("\n", " ") for paragraph in paragraphs)


_ENDS_OF_LINES = re.compile(r"(?<![^\S\n])[^\S\n]*\n[^\S\n]*")
_BLANK_LINES = re.compile(r"\n{2,}")
_DIVIDED = re.compile(r"\b(\w+)([-\u2010\u00ad])\n(?=(\w+))")
_HYPHENATED = re.compile(r"\b(?=(\w+[-\u2010]\w+))")
_WITHOUT_BLANKS = re.compile(f"(?<=[{UNSPACED}\u3001\u3002\uff00-\uffef])\n(?=[{UNSPACED}\u3001\u3002\uff00-\uffef])")
_AND = re.compile("and|or|und|oder|bzw|sowie|et|ou|en|of|och|eller|og|tai|ili|oraz|nebo")


def seems_wrapped(texts: Iterable[str]) -> bool:
    """Whether so many lines of `texts` go on with a small letter in the next one that their ends mean nothing."""
    lines = going_on = 0
    for text in texts:
        for line, following in pairwise(text.splitlines()):
            if line.strip() and following.strip():
                lines += 1
                going_on += following.lstrip()[0].islower() and line.rstrip()[-1] not in _ENDS
    return lines >= _FEWEST_LINES and going_on > _SHARE_OF_WRAPPED * lines


_ENDS = frozenset(".!?…:;")
_FEWEST_LINES = 20
_SHARE_OF_WRAPPED = 0.3
"""Of lines in wrapped German, where nouns have capitals, every second goes on so; of paragraphs hardly any."""


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of all paragraphs (lines) of `text`, in order, none of them empty.

    A paragraph of more than `LONGEST_PARAGRAPH` characters is split in pieces of so many, up to a blank. The last
    sentence of a piece, which may go on, is the beginning of the next one.
    """
    return [
        sentence for paragraph in text.split("\n") for part in _parts(paragraph, language) if (sentence := part.strip())
    ]


def _parts(paragraph: str, language: str) -> Iterator[str]:
    """Which, one behind the other, are the paragraph."""
    start = 0
    while len(paragraph) - start > LONGEST_PARAGRAPH:
        blank = paragraph.rfind(" ", start + 1, start + LONGEST_PARAGRAPH + 1)
        *whole, last = segment(language, paragraph[start : blank if blank > 0 else start + LONGEST_PARAGRAPH])
        found = whole or [last]
        yield from found
        start += sum(map(len, found))
    yield from segment(language, paragraph[start:])
