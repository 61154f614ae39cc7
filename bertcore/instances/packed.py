"""Sequences before masking, as segments (ranges of a shard's tokens), and laid out with their special tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.ragged import offsets_of, ranges
from bertcore.tokens.tokenizer import Vocabulary


@dataclass(frozen=True)
class Packed:
    """N sequences of S segments in all."""

    starts: NDArray[np.int64]
    """(S,) where each segment begins in the shard's tokens."""
    ends: NDArray[np.int64]
    """(S,) where it ends."""
    row_offsets: NDArray[np.int64]
    """(N + 1,) where each sequence begins in the segments; none is empty."""
    labels: NDArray[np.int8] | None
    """(N,) of pairs of segments A and B; None = there are no such pairs: every token is of type 0."""
    free: NDArray[np.bool_] | None
    """(N,) whether the label was drawn with probability 0.5; False where there was no choice; None without labels."""
    truncated_tokens: int
    """Cut off because a sequence was too long."""
    left_out_tokens: int
    """In sentences that no sequence holds."""

    def __len__(self) -> int:
        return len(self.row_offsets) - 1

    @classmethod
    def concatenate(cls, parts: "Sequence[Packed]") -> "Packed":
        """The sequences of all `parts`, each still in ranges of its own text."""
        if len(parts) == 1:
            return parts[0]
        labels = [part.labels for part in parts if part.labels is not None]
        free = [part.free for part in parts if part.free is not None]
        return cls(
            starts=np.concatenate([part.starts for part in parts]),
            ends=np.concatenate([part.ends for part in parts]),
            row_offsets=offsets_of(np.concatenate([np.diff(part.row_offsets) for part in parts])),
            labels=np.concatenate(labels) if labels else None,
            free=np.concatenate(free) if free else None,
            truncated_tokens=sum(part.truncated_tokens for part in parts),
            left_out_tokens=sum(part.left_out_tokens for part in parts),
        )

    def take(self, rows: NDArray[np.int64]) -> "Packed":
        """The sequences `rows`, in that order, without what the packing of all has lost."""
        first = self.row_offsets[rows]
        counts = self.row_offsets[rows + 1] - first
        segments = ranges(first, counts)
        return replace(
            self,
            starts=self.starts[segments],
            ends=self.ends[segments],
            row_offsets=offsets_of(counts),
            labels=None if self.labels is None else self.labels[rows],
            free=None if self.free is None else self.free[rows],
            truncated_tokens=0,
            left_out_tokens=0,
        )


@dataclass(frozen=True)
class LaidOut:
    """N sequences of T tokens in all."""

    tokens: NDArray[Any]
    """(T,) ids."""
    offsets: NDArray[np.int64]
    """(N + 1,) where each sequence begins."""
    segment_a_lengths: NDArray[np.int32]
    """(N,) tokens of type 0."""


def lay_out(
    texts: Sequence[NDArray[Any]], bounds: NDArray[np.int64], packed: Packed, vocabulary: Vocabulary
) -> LaidOut:
    """All sequences, with their special tokens, end to end.

    Those from `bounds[i]` (len(texts) + 1,) up to `bounds[i + 1]` are ranges of `texts[i]`.
    """
    first, lengths = packed.row_offsets, packed.ends - packed.starts
    blocks = lengths + 1  # a segment and its separator
    blocks[first[:-1]] += 1  # and what begins every sequence, before the first of a row
    further = vocabulary.separators - 1 if packed.labels is not None else 0
    blocks[first[:-1]] += further  # and more separators between the segments of a pair
    ends = offsets_of(blocks)
    offsets, seps = ends[first], ends[1:] - 1
    # One copy fetches a neighbour of the segment where a special token belongs, which then takes its place.
    behind = seps.copy()
    behind[first[:-1]] -= further
    source = np.repeat(packed.ends - behind, blocks)
    source += np.arange(len(source))
    tokens = np.empty(len(source), texts[0].dtype)
    for text, start, end in zip(texts, offsets[bounds[:-1]], offsets[bounds[1:]], strict=True):
        text.take(source[start:end], mode="clip", out=tokens[start:end])
    tokens[offsets[:-1]], tokens[seps] = vocabulary.cls, vocabulary.sep
    for number in range(further):
        tokens[seps[first[:-1]] - 1 - number] = vocabulary.sep
    paired = packed.labels is not None and vocabulary.segment_ids
    of_type_0 = blocks[first[:-1]] if paired else np.diff(offsets)
    return LaidOut(tokens, offsets, of_type_0.astype(np.int32))
