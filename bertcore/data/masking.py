"""BERT's masked language modelling draws, vectorised: a pure function of (key, row, position)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.data import draws
from bertcore.data.shards import Vocabulary

# A row's counters leave room for so many positions, so that no two rows share a counter.
_POSITIONS = np.uint64(2**16)


@dataclass(frozen=True, kw_only=True)
class MaskingRule:
    """How many tokens of a sequence are predicted, and what stands in their place."""

    masked_lm_prob: float
    """Share of a sequence's tokens, special tokens counted, that are predicted."""
    max_predictions_per_seq: int
    """Upper bound of predictions in one sequence."""
    mask_share: float = 0.8
    """Of the predicted tokens, the share that [MASK] replaces."""
    random_share: float = 0.1
    """Of the predicted tokens, the share that an id drawn from the whole vocabulary replaces; the rest stays."""

    def count(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """min(max_predictions, max(1, round(prob * length))), as the reference computes it (half to even)."""
        wanted = np.rint(lengths * self.masked_lm_prob).astype(np.int64)
        return np.minimum(np.maximum(wanted, 1), self.max_predictions_per_seq)


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
    rows: NDArray[np.int64],
    key: int,
    rule: MaskingRule,
    vocabulary: Vocabulary,
) -> Masked:
    """Mask sequences that lie in `tokens` at `offsets` (N + 1,); `rows` (N,) names each in the draws of `key`.

    [CLS], [SEP], [PAD] and [MASK] are never chosen; [UNK] is, as in the reference.
    """
    lengths = np.diff(offsets)
    width = int(lengths.max(initial=0))
    row_index = np.repeat(np.arange(len(lengths)), lengths)
    column = np.arange(len(tokens)) - np.repeat(offsets[:-1], lengths)
    counters = rows.astype(np.uint64)[row_index] * _POSITIONS + column.astype(np.uint64)

    protected = vocabulary.special.copy()
    protected[vocabulary.unk] = False
    order = np.full((len(lengths), width), np.inf, np.float32)
    order[row_index, column] = np.where(protected[tokens], np.inf, draws.uniform(draws.key(key, "choose"), counters))

    # The smallest of independent uniform numbers are a uniform choice without replacement.
    most = min(rule.max_predictions_per_seq, width)
    smallest = np.argpartition(order, most - 1, axis=1)[:, :most] if most < width else np.argsort(order, axis=1)
    values = np.take_along_axis(order, smallest, axis=1)
    rank = np.argsort(values, axis=1, kind="stable")
    values, smallest = np.take_along_axis(values, rank, axis=1), np.take_along_axis(smallest, rank, axis=1)
    chosen = (np.arange(most) < rule.count(lengths)[:, None]) & np.isfinite(values)
    positions = np.sort((smallest + offsets[:-1, None])[chosen])

    labels = tokens[positions]
    masked = tokens.copy()
    masked[positions] = _replacements(labels, counters[positions], key, rule, vocabulary)
    return Masked(masked, positions, labels, chosen.sum(axis=1))


def _replacements(
    labels: NDArray[Any], counters: NDArray[np.uint64], key: int, rule: MaskingRule, vocabulary: Vocabulary
) -> NDArray[Any]:
    what = draws.uniform(draws.key(key, "replace"), counters)
    anything = (draws.uniform(draws.key(key, "random id"), counters) * vocabulary.size).astype(labels.dtype)
    replaced = np.where(what < rule.mask_share + rule.random_share, anything, labels)
    return np.where(what < rule.mask_share, np.array(vocabulary.mask, labels.dtype), replaced)
