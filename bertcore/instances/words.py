"""The words of laid-out sequences: a piece that does not begin with ``##``, and the ``##`` pieces behind it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bertcore.tokens.shards import Vocabulary


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
    """(W + 1,) pieces of all words up to and without each word, and of all."""
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
