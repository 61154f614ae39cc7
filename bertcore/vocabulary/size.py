"""How large a vocabulary a text carries: 95 % of its entries should occur a hundred times (Gowda and May 2020).

How often the entry at the 95th percentile occurs is reckoned by Zipf's law from the number of pieces, and not counted:
the rarest entries of a trained vocabulary are characters, and pieces of longer entries, whatever its size. (In the
default's text, counted for 24 sizes from 512 entries up, at least 13 % of WordPiece's occur fewer than a hundred times,
and 7 % of byte-level BPE's.)
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from bertcore.tokens.kind import LARGEST

ENOUGH = 100
"""Occurrences from which an embedding is learned well (Gowda and May 2020)."""
FAR_TOO_FEW = ENOUGH / 2
"""Occurrences below which a vocabulary is said to be too large."""
STEP = 64
"""Sizes are multiples of it, which GPUs multiply fastest."""
SMALLEST = 512
"""Entries."""
CHOSEN = "vocab_size_chosen"
"""In metrics/tokenizer.json: why `vocab_size: auto` has come to this size."""
_PERCENTILE = 0.95
_EULER = 0.5772156649


def occurrences(tokens: float, entries: int) -> float:
    """How often the entry at the 95th percentile of a vocabulary occurs among so many tokens, by Zipf's law."""
    return tokens / (_PERCENTILE * entries * (math.log(entries) + _EULER))


def too_little(tokens: float, entries: int) -> bool:
    """Whether so many tokens are too little text for a vocabulary of that size."""
    return occurrences(tokens, entries) < FAR_TOO_FEW


def vocabulary_for(tokens: float) -> int:
    """The largest vocabulary, a multiple of 64, whose entry at the 95th percentile occurs `ENOUGH` times."""
    return largest(lambda _: tokens, range(SMALLEST, LARGEST + 1, STEP))


def largest(tokens: Callable[[int], float], sizes: Sequence[int]) -> int:
    """The largest of the ascending `sizes` whose entry at the 95th percentile occurs `ENOUGH` times, where a vocabulary
    of that size makes `tokens(size)` of the text; the first of them where none does."""
    enough = bisect_right(sizes, False, key=lambda size: occurrences(tokens(size), size) < ENOUGH)
    return sizes[max(enough - 1, 0)]
