"""Masked language modelling draws, vectorised: a pure function of (key of the row, position).

The words of a row are visited in a random order, as the published procedures do, but those of all rows at once: the
loop runs over the rank in that order, and ends when every row has its predictions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bertcore import draws
from bertcore.instances.config import MaskingRule
from bertcore.ragged import ranges
from bertcore.tokens.tokenizer import Vocabulary

# The low bits of a word's sort key name it; the others, 48 random bits, put it in its place.
_NAME = np.uint64(2**16 - 1)


def maskable_ids(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """(size,) False for [CLS], [SEP], [PAD] and [MASK], which are never predicted; [UNK] is, as in the reference."""
    allowed = ~vocabulary.special
    allowed[vocabulary.unk] = True
    return allowed


@dataclass(frozen=True)
class Words:
    """W words of N sequences, ascending; special tokens belong to none."""

    starts: NDArray[np.int64]
    """(W,) where each word begins in the tokens."""
    ends: NDArray[np.int64]
    """(W + 1,) number of pieces before each word, and in all words."""
    offsets: NDArray[np.int64]
    """(N + 1,) where each sequence begins in the words."""

    @classmethod
    def find(cls, tokens: NDArray[Any], offsets: NDArray[np.int64], whole: bool, vocabulary: Vocabulary) -> Self:
        """The words of the sequences at `offsets` (N + 1,) in `tokens`; without `whole` every piece is one.

        A ``##`` piece behind a special token, whose word was cut off before it, begins a word of its own.
        """
        maskable = maskable_ids(vocabulary)[tokens]
        if not whole:
            starts = np.flatnonzero(maskable)
            return cls(starts, np.arange(len(starts) + 1), np.searchsorted(starts, offsets))
        begins = maskable.copy()
        begins[1:] &= ~(vocabulary.continues[tokens[1:]] & maskable[:-1])
        starts, pieces = np.flatnonzero(begins), np.flatnonzero(maskable)
        ends = np.append(np.flatnonzero(begins[pieces]), len(pieces))
        return cls(starts, ends, np.searchsorted(starts, offsets))

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(W,) pieces of each word."""
        return np.diff(self.ends)

    @property
    def counts(self) -> NDArray[np.int64]:
        """(N,) words of each sequence."""
        return np.diff(self.offsets)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """(W,) the sequence of each word."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def segments(self) -> NDArray[np.int64]:
        """(S + 1,) where each segment, the words between two special tokens, begins in the words, and the end."""
        specials_before = self.starts - self.ends[:-1]
        return np.concatenate([[0], np.flatnonzero(np.diff(specials_before)) + 1, [len(self)]])[: len(self) + 1]

    @property
    def rooms(self) -> NDArray[np.int64]:
        """(W,) words from each one, itself counted, to the end of its segment."""
        return np.repeat(self.segments[1:], np.diff(self.segments)) - np.arange(len(self))

    @property
    def places(self) -> NDArray[np.int64]:
        """(W,) words before each one in its segment."""
        return np.arange(len(self)) - np.repeat(self.segments[:-1], np.diff(self.segments))


@dataclass(frozen=True)
class Masked:
    """The draws for N sequences of T tokens in all."""

    tokens: NDArray[Any]
    """(T,) the input ids, predicted ones replaced."""
    positions: NDArray[np.int64]
    """(M,) flat indices into `tokens` of the predicted ones, ascending."""
    labels: NDArray[Any]
    """(M,) the ids that stood there."""
    counts: NDArray[np.int64]
    """(N,) predictions of each sequence."""


def mask(
    tokens: NDArray[Any],
    offsets: NDArray[np.int64],
    keys: draws.U64,
    rule: MaskingRule,
    vocabulary: Vocabulary,
) -> Masked:
    """Mask sequences of up to 65,535 tokens that lie in `tokens` at `offsets` (N + 1,); `keys` (N,) decide each one's.

    [CLS], [SEP], [PAD] and [MASK] are never chosen; [UNK] is, as in the reference.
    """
    words = Words.find(tokens, offsets, rule.masking != "token", vocabulary)
    budgets = np.minimum(rule.budgets(np.diff(offsets), keys), np.diff(words.ends[words.offsets]))
    order = _visiting_order(words.counts, keys)
    if rule.masking == "token":
        chosen = _first(words, order, budgets)
    else:
        chosen = _greedy(words, order, budgets, _span_sizes(words, keys, rule.length_weights), rule.longest)
    lengths, starts = words.lengths[chosen], words.starts[chosen]
    rows = np.repeat(np.arange(len(keys)), np.diff(np.searchsorted(chosen, words.offsets)))
    positions = ranges(starts, lengths)
    labels = tokens[positions]
    rows, starts = np.repeat(rows, lengths), np.repeat(starts, lengths)
    units = {"token": positions, "word": starts, "span": run_starts(positions)}[rule.replace_unit]
    masked = tokens.copy()
    masked[positions] = _replacements(
        labels, units - offsets[rows], positions - offsets[rows], keys[rows], rule, vocabulary
    )
    return Masked(masked, positions, labels, np.bincount(rows, minlength=len(keys)))


def run_starts(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """(M,) ascending places -> the first of those that stand side by side with each. A special token parts them."""
    first = np.diff(positions, prepend=-2) != 1
    starts: NDArray[np.int64] = positions[np.flatnonzero(first)[np.cumsum(first) - 1]]
    return starts


def _visiting_order(counts: NDArray[np.int64], keys: draws.U64) -> NDArray[np.int64]:
    """(N, most words) the words of each row, counted from its first, in random order; behind its `counts` (N,) noise.

    The smallest of independent uniform numbers are a uniform choice without replacement.
    """
    columns = np.arange(int(counts.max(initial=0)), dtype=np.uint64)
    order = draws.bits(draws.bits(draws.key("choose"), keys)[:, None], columns)
    order &= ~_NAME
    order |= columns
    order[columns >= counts[:, None].astype(np.uint64)] = ~np.uint64(0)
    order.sort(axis=1)
    order &= _NAME
    return order.view(np.int64)


def _first(words: Words, order: NDArray[np.int64], budgets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first `budgets` (N,) words of every row's order, ascending."""
    ranks = np.arange(int(budgets.max(initial=0)))
    names = order[:, : len(ranks)].copy()
    names[ranks >= budgets[:, None]] = int(_NAME)
    names.sort(axis=1)
    return (names + words.offsets[:-1, None])[ranks < budgets[:, None]]


def _greedy(
    words: Words, order: NDArray[np.int64], budgets: NDArray[np.int64], sizes: NDArray[np.int64], longest: int
) -> NDArray[np.int64]:
    """Spans of `sizes` (W,) words taken in every row's order while they fit into `budgets` (N,): the words in them,
    ascending.

    A span that is too long is shortened; one that is still too long, or meets one taken before, is skipped.
    """
    left, counts, ends = budgets.copy(), words.counts, words.ends
    taken = np.zeros(len(words) + longest, bool)
    active = np.flatnonzero(left)
    for rank in range(order.shape[1]):
        active = active[(left[active] > 0) & (rank < counts[active])]
        if not len(active):
            break
        first, room = words.offsets[active] + order[active, rank], left[active]
        size = sizes[first]
        for _ in range(longest - 1):
            size -= (ends[first + size] - ends[first] > room) & (size > 1)
        pieces = ends[first + size] - ends[first]
        free = pieces <= room
        for step in range(longest):
            free &= ~(taken[first + step] & (step < size))
        for step in range(longest):
            taken[first[free & (step < size)] + step] = True
        left[active[free]] -= pieces[free]
    return np.flatnonzero(taken)


def _span_sizes(words: Words, keys: draws.U64, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """(W,) the words of a span that begins at each word: p(n) ~ weights[n - 1] over what its segment has room for."""
    if len(weights) == 1:
        return np.ones(len(words), np.int64)
    rooms = np.minimum(words.rooms, len(weights))
    columns = (np.arange(len(words)) - np.repeat(words.offsets[:-1], words.counts)).astype(np.uint64)
    drawn = draws.uniform(np.repeat(draws.bits(draws.key("n-gram"), keys), words.counts), columns)
    sums = np.cumsum(weights)
    return np.minimum(np.searchsorted(sums, drawn * sums[rooms - 1], side="right") + 1, rooms)


def _replacements(
    labels: NDArray[Any],
    units: NDArray[np.int64],
    columns: NDArray[np.int64],
    keys: draws.U64,
    rule: MaskingRule,
    vocabulary: Vocabulary,
) -> NDArray[Any]:
    """What stands in the place of `labels` (M,): `units` and `columns` (M,) count from the row's first token."""
    what = draws.uniform(draws.bits(draws.key("replace"), keys), units.astype(np.uint64))
    # 80 % (mask_share) become [MASK],
    replaced = np.where(what < rule.mask_share, np.array(vocabulary.mask, labels.dtype), labels)
    # 10 % (random_share) become a random id,
    random = np.flatnonzero((what >= rule.mask_share) & (what < rule.mask_share + rule.random_share))
    # and 10 % (the rest) stay what they are.
    drawn = draws.uniform(draws.bits(draws.key("random id"), keys[random]), columns[random].astype(np.uint64))
    pool = rule.random_pool(vocabulary)
    replaced[random] = pool[(drawn * len(pool)).astype(np.int64)]
    return replaced
