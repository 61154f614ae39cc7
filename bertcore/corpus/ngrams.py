"""The n-grams of a text, alike for texts that differ in nothing a reader would see: for finding what two texts share.

Both searches, for evaluation texts (`contamination`) and for near duplicates, compare texts in this form: without
invisible characters (soft hyphens, joiners) and optional vowel points, in NFKC, in lower case, as runs of letters,
digits and the marks on them. NFKC, not NFC, because full-width and ligature forms are the same text.

In scripts without blanks between words every character is a unit, which counts half a word: an n-gram of 13 words is
26 characters of Chinese, and as many units of a mixed text as make up 13 words.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertcore.ragged import offsets_of
from bertcore.words import UNSPACED

_INVISIBLE = "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
# Hebrew points, Arabic vowel signs, and the bar that stretches an Arabic word: the same text has them or not.
_OPTIONAL = "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670]"
_FOLDED = {"\u00df": "ss", "\u03c2": "\u03c3"}
"""What lower case leaves apart: sharp s from SS, and sigma at the end of a word from sigma."""
_BETWEEN_UNITS = r"[^\p{L}\p{N}\p{M}]+"
_IS_CHARACTER = re.compile(f"[{UNSPACED}]")
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 2**64)


def comparable(texts: Sequence[str]) -> pa.Array:
    """Each text as its units, with one blank between two."""
    array = pa.array(texts, pa.large_string())
    plain = pc.all(pc.string_is_ascii(array)).as_py()
    if not plain:
        # First NFKC, which parts points from letters that have a code together with them.
        array = pc.replace_substring_regex(pc.utf8_normalize(array, form="NFKC"), f"{_INVISIBLE}|{_OPTIONAL}", "")
    array = pc.replace_substring_regex(pc.utf8_lower(array), _BETWEEN_UNITS, " ")
    if not plain:
        for letter, folded in _FOLDED.items():
            array = pc.replace_substring(array, letter, folded)
        array = pc.replace_substring_regex(array, f"([{UNSPACED}])", r" \1 ")
        array = pc.replace_substring_regex(array, " +", " ")
    return pc.utf8_trim(array, " ")


def ngram_hashes(texts: Sequence[str], ngram: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes of all n-grams within each text, and the index of the text that each belongs to."""
    units = pc.split_pattern(comparable(texts), " ")
    ends = np.cumsum(pc.list_value_length(units).to_numpy())
    numbered = pc.dictionary_encode(units.flatten())
    names, which = numbered.dictionary.to_pylist(), numbered.indices.to_numpy()
    starts, stops = _windows(np.fromiter(map(_weight, names), np.int64, len(names))[which], ends, ngram)
    values = np.fromiter(map(_hash, names), np.uint64, len(names))[which]
    # A window's hash is that of its units at powers of a base from 0 on, from two prefix sums modulo 2^64.
    sums = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values * _powers(_BASE, len(values)), out=sums[1:])
    hashes = (sums[stops] - sums[starts]) * _powers(_INVERSE, len(values))[starts]
    return hashes, np.searchsorted(ends, starts, side="right")


def ngram_texts(text: str, ngram: int) -> Iterator[str]:
    """All n-grams of one text, one by one: together they are `ngram` times as long; of one that is too short, the
    whole, and of one without a letter or digit none."""
    units = comparable([text])[0].as_py().split()
    weights = np.fromiter(map(_weight, units), np.int64, len(units))
    starts, stops = _windows(weights, np.array([len(units)]), ngram)
    if units and not len(starts):
        yield " ".join(units)
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        yield " ".join(units[start:stop])


def _windows(
    weights: NDArray[np.int64], ends: NDArray[np.int64], ngram: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(G,) where each n-gram begins and ends in the units, whose `weights` count half words; `ends` (N,) of the
    texts."""
    before = offsets_of(weights)
    starts = np.arange(len(weights))
    stops = np.searchsorted(before, before[:-1] + 2 * ngram, side="left")
    inside = stops <= ends[np.searchsorted(ends, starts, side="right")] if len(ends) else starts < 0
    return starts[inside], stops[inside]


def _weight(unit: str) -> int:
    return 1 if len(unit) == 1 and _IS_CHARACTER.match(unit) else 2


def _powers(base: int, count: int) -> NDArray[np.uint64]:
    """1, base, base ** 2, … modulo 2^64."""
    powers = np.full(max(count, 1), base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers)[:count]


def _hash(unit: str) -> int:
    return int.from_bytes(hashlib.blake2b(unit.encode(), digest_size=8).digest(), "little")
