"""Proof that the instances are what the recipe says: counted from the written instances, not from the code that drew
them."""

import logging
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.errors import ArtifactError, InputError
from bertcore.instances.arrays import Instances
from bertcore.instances.config import LABELS, MaskConfig
from bertcore.instances.masking import Words
from bertcore.instances.sources import DrawnInstances
from bertcore.ragged import offsets_of
from bertcore.tokens.tokenizer import Vocabulary

logger = logging.getLogger(__name__)

# A sound run fails a check of this level once in a million audits.
_SIGNIFICANCE = 1e-6
# Expected counts below it are put together, as chi-square says "off" of such ones far more often than that.
_LEAST_EXPECTED = 10.0
_BORNE = 0.1
"""Of the spans expected in a part of the sequence, what their number may differ beside chance."""
_BINS = 10
_ID_BINS = 16
_SEGMENT_BINS = 32


@dataclass
class Audit:
    """Counts over any number of instance sets; `report` turns them into metrics, `check` raises where they are off."""

    config: MaskConfig
    vocabulary: Vocabulary
    counts: Counter[str] = field(default_factory=Counter)
    shards: list[str] = field(default_factory=list)
    """The names of what was drawn from."""
    replaced: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, 3)))
    """Predictions that became [MASK], another id, and themselves: found, and expected by the rule."""
    places: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, _BINS)))
    """Predicted words by their place in the sequence: found, and expected if all places are alike."""
    random_ids: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, _ID_BINS)))
    """Random replacements by their id: found, and expected if all ids are alike."""
    labels_by_segments: NDArray[np.int64] = field(init=False)
    """(2, bins, bins) sequences by label and by the lengths of segments A and B, special tokens included."""
    labels_by_length: NDArray[np.int64] = field(init=False)
    """(2, sequence_length + 1) sequences by label (0 where there are none) and length."""

    def __post_init__(self) -> None:
        self.labels_by_length = np.zeros((2, self.config.sequence_length + 1), np.int64)
        bins = self.config.sequence_length // self._bin_width + 1
        self.labels_by_segments = np.zeros((2, bins, bins), np.int64)

    @property
    def _bin_width(self) -> int:
        """Tokens of a bin of `labels_by_segments`."""
        return max(1, self.config.sequence_length // _SEGMENT_BINS)

    def add_drawn(self, drawn: DrawnInstances) -> Instances:
        """Draw all instances of a source and count them, and what it lost; the instances."""
        parts, free, done = [], drawn.free, 0
        for part in drawn.blocks():
            self.add(part, None if free is None else free[done : done + len(part)])
            parts.append(part)
            done += len(part)
        self.shards.append(drawn.name)
        self.counts.update(truncated=drawn.packed.truncated_tokens, left_out=drawn.packed.left_out_tokens)
        return Instances.concatenate(parts)

    def update(self, other: "Audit") -> None:
        """Add what was counted by another audit, of the same rule and vocabulary."""
        self.counts.update(other.counts)
        self.shards += other.shards
        self.replaced += other.replaced
        self.places += other.places
        self.random_ids += other.random_ids
        self.labels_by_segments += other.labels_by_segments
        self.labels_by_length += other.labels_by_length

    def add(self, instances: Instances, free: NDArray[np.bool_] | None = None) -> None:
        """Count `instances`; `free` (N,) says which labels were drawn with probability 0.5 (None: all)."""
        original = instances.tokens.copy()
        original[instances.masked_positions] = instances.masked_labels
        words = Words.find(original, instances.offsets, self.config.masking != "token", self.vocabulary)
        predicted = np.zeros(len(original), bool)
        predicted[instances.masked_positions] = True
        pieces = np.add.reduceat(predicted, words.starts, dtype=np.int64) if len(words) else words.starts
        # Up to the next word there may be special tokens: predicted ones are a defect that is counted for itself.
        special = predicted[instances.masked_positions] & ~self._in_word(words, instances.masked_positions)
        self.counts.update(
            sequences=len(instances),
            tokens=len(original),
            predicted=len(instances.masked_positions),
            special=int(special.sum()),
            partial=int(((pieces > 0) & (pieces < words.lengths)).sum()),
            wrong=self._wrong_counts(instances, words, pieces > 0),
        )
        self._count_places(instances, words, pieces > 0)
        self._count_replacements(instances, words)
        self._count_labels(instances, free)

    @staticmethod
    def _in_word(words: Words, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        word = np.searchsorted(words.starts, positions, side="right") - 1
        return (word >= 0) & (positions < (words.starts + words.lengths)[word])

    def _wrong_counts(self, instances: Instances, words: Words, chosen: NDArray[np.bool_]) -> int:
        """Sequences with more predictions than the rule allows, or fewer although one more choice would have fitted."""
        rule, found = self.config, np.diff(instances.masked_offsets)
        low, high = rule.bounds(instances.lengths)
        before = offsets_of(chosen.astype(np.int64))
        span = np.minimum(words.rooms, rule.longest)
        untouched = before[np.arange(len(words)) + span] == before[:-1]
        missed = untouched & (words.lengths <= (low - found)[words.rows])
        return int(((found > high) | (np.bincount(words.rows, missed, len(instances)) > 0)).sum())

    def _count_places(self, instances: Instances, words: Words, chosen: NDArray[np.bool_]) -> None:
        """Words of one length are alike within a sequence, but at the ends of a segment fewer spans meet; and the words
        of a span come together, so that its first one alone is counted."""
        margin = 0
        if self.config.longest > 1:
            margin = self.config.longest
            goes_on = np.append(False, chosen[:-1]) & (words.places > 0)
            chosen = chosen & ~goes_on
        inner = np.flatnonzero((words.places >= margin) & (words.rooms > margin))
        rows, hits = words.rows[inner], chosen[inner]
        alike = rows * (int(words.lengths.max(initial=0)) + 1) + words.lengths[inner]
        expected = np.bincount(alike, hits)[alike] / np.bincount(alike)[alike]
        place = (words.starts[inner] - instances.offsets[rows]) * _BINS // instances.lengths[rows]
        self.places += [np.bincount(place, hits, _BINS), np.bincount(place, expected, _BINS)]

    def _count_replacements(self, instances: Instances, words: Words) -> None:
        rule, found, labels = self.config, instances.tokens[instances.masked_positions], instances.masked_labels
        masked, kept = found == self.vocabulary.mask, found == labels
        units = np.arange(len(found))
        if rule.replace_unit == "word":
            word = np.searchsorted(words.starts, instances.masked_positions, side="right")
            units = np.flatnonzero(np.diff(word, prepend=-1))
        elif rule.replace_unit == "span":
            units = np.flatnonzero(np.diff(instances.masked_positions, prepend=-2) != 1)
        sizes = np.diff(np.append(units, len(found)))
        all_masked, all_kept = (np.add.reduceat(what, units, dtype=np.int64) == sizes for what in (masked, kept))
        pool = np.zeros(self.vocabulary.size, bool)
        pool[rule.random_pool(self.vocabulary)] = True
        # A random id may happen to be the label, or [MASK].
        chance = 1 / pool.sum()
        same = np.multiply.reduceat(np.where(pool[labels], chance, 0.0), units)
        by_mask = rule.mask_share * len(units) + rule.random_share * pool[self.vocabulary.mask] * (chance**sizes).sum()
        by_same = (1 - rule.mask_share - rule.random_share) * len(units) + rule.random_share * same.sum()
        counted = all_masked.sum(), (~all_masked & ~all_kept).sum(), all_kept.sum()
        self.replaced += [counted, (by_mask, len(units) - by_mask - by_same, by_same)]
        pool[self.vocabulary.mask] = False
        self._count_random_ids(found[~masked & ~kept], labels[~masked & ~kept], pool)

    def _count_random_ids(self, found: NDArray[Any], labels: NDArray[Any], pool: NDArray[np.bool_]) -> None:
        """`pool` (V,) says which ids a random one may be, if it is not the label."""
        bins = np.arange(len(pool)) * _ID_BINS // len(pool)
        possible = np.bincount(bins, pool, _ID_BINS)
        own = pool[labels]
        expected = (own.sum() * possible - np.bincount(bins[labels], own, _ID_BINS)) / max(pool.sum() - 1, 1)
        expected += (~own).sum() * possible / pool.sum()
        self.random_ids += [np.bincount(bins[found], minlength=_ID_BINS), expected]
        self.counts["foreign"] += int((~pool[found]).sum())

    def _count_labels(self, instances: Instances, free: NDArray[np.bool_] | None) -> None:
        labels = instances.next_sentence_labels
        if labels is None:
            self.labels_by_length[0] += np.bincount(instances.lengths, minlength=self.config.sequence_length + 1)
            return
        ones, first = labels.astype(int), instances.segment_a_lengths
        np.add.at(self.labels_by_length, (ones, instances.lengths), 1)
        bins = first // self._bin_width, (instances.lengths - first) // self._bin_width
        np.add.at(self.labels_by_segments, (ones, *bins), 1)
        drawn = np.ones(len(labels), bool) if free is None else free
        self.counts.update(free=int(drawn.sum()), free_ones=int(labels[drawn].sum()), forced=int(labels[~drawn].sum()))

    def report(self) -> dict[str, Any]:
        """The metrics of the mask stage."""
        counts = self.counts
        shares, expected = self.replaced / max(self.replaced[0].sum(), 1)
        lengths = self.labels_by_length.sum(axis=0)
        histogram = {
            f"{low}-{min(low + 15, len(lengths) - 1)}": int(lengths[low : low + 16].sum())
            for low in range(0, len(lengths), 16)
            if lengths[low : low + 16].any()
        }
        return {
            "sequences": counts["sequences"],
            "tokens": counts["tokens"],
            "predicted_tokens": counts["predicted"],
            "predicted_share": counts["predicted"] / counts["tokens"],
            "mask_share": shares[0],
            "random_share": shares[1],
            "kept_share": shares[2],
            "mask_share_expected": expected[0],
            "random_share_expected": expected[1],
            "kept_share_expected": expected[2],
            "replacement_p_value": _p_value(self.replaced),
            "position_p_value": _p_value(self.places),
            "random_id_p_value": _p_value(self.random_ids),
            "special_tokens_predicted": counts["special"],
            **({} if self.config.masking == "token" else {"words_predicted_in_part": counts["partial"]}),
            "random_ids_outside_the_rule": counts["foreign"],
            "sequences_with_wrong_count": counts["wrong"],
            **self._label_report(),
            "padding_share_if_padded": 1 - counts["tokens"] / (counts["sequences"] * self.config.sequence_length),
            "truncated_tokens": counts["truncated"],
            "left_out_tokens": counts["left_out"],
            "length_histogram": histogram,
        }

    def _label_report(self) -> dict[str, float]:
        if self.config.packing not in LABELS:
            return {}
        one = LABELS[self.config.packing]
        sequences = self.counts["sequences"]
        return {
            f"{one}_share": self.labels_by_length[1].sum() / sequences,
            f"{one}_share_expected": (self.counts["forced"] + self.counts["free"] / 2) / sequences,
            f"{one}_p_value": self._balance_p_value(),
        }

    def label_baselines(self, train: "Audit") -> dict[str, float]:
        """Accuracies on the labels counted here of two rules that the labels of `train` alone decide: always the more
        frequent one, and the more frequent one among sequences whose segments have the same lengths (in `_SEGMENT_BINS`
        bins each); empty where there are no labels.

        Where the lengths do not decide, the overall majority does.
        """
        if self.config.packing not in LABELS:
            return {}
        known, asked = (audit.labels_by_segments.reshape(2, -1) for audit in (train, self))
        majority = int(known.sum(axis=1).argmax())
        by_length = np.where(known[0] == known[1], majority, known.argmax(axis=0))
        return {
            "majority_accuracy": float(asked[majority].sum() / asked.sum()),
            "by_length_alone_accuracy": float(asked[by_length, np.arange(len(by_length))].sum() / asked.sum()),
        }

    def check(self) -> None:
        """Raise `ArtifactError` where a rate is off by more than chance allows, and `InputError` where there is no
        sequence; warn where the text or the parameters leave little to learn."""
        if not self.counts["sequences"]:
            raise InputError(
                f"data/shards: {', '.join(self.shards[:3]) or 'no shard of a split'}: found no sequence of packing "
                f"{self.config.packing!r}, expected at least one in each split; give more text, documents of several "
                "sentences, or a larger corpus.heldout_fraction, or set mask.packing: full_sentences"
            )
        self._warn()
        rule = self.config
        shares = "/".join(f"{100 * share:g}" for share in (rule.mask_share, rule.random_share))
        problems = {
            "special tokens are predicted": self.counts["special"],
            "words are predicted in part": self.counts["partial"],
            "sequences have another number of predictions than the rule says": self.counts["wrong"],
            "random ids are drawn from outside the rule's": self.counts["foreign"],
            f"[MASK] and random shares differ from {shares} %": _p_value(self.replaced) < _SIGNIFICANCE,
            "predictions are not uniform over positions": self._places_are_off(),
            "random ids are not uniform": _p_value(self.random_ids) < _SIGNIFICANCE,
            "the labels of pairs are not balanced": self._balance_p_value() < _SIGNIFICANCE,
        }
        if found := [problem for problem, is_off in problems.items() if is_off]:
            raise ArtifactError(
                f"data/instances: the audit failed: {'; '.join(found)} ({self.report()}); this is a defect: report it"
            )

    def _places_are_off(self) -> bool:
        """Whether the places of predictions are off by more than chance.

        A span is taken only where it fits, which depends on the lengths of its neighbours: where these vary with the
        place, as behind titles, even sound spans are off by a few percent, which is more than chance in a large text.
        `_BORNE` allows for that.
        """
        found, expected = self.places
        borne = _BORNE if self.config.longest > 1 else 0.0
        nearest = np.clip(found, expected * (1 - borne), expected * (1 + borne))
        return _p_value(np.stack([found, nearest])) < _SIGNIFICANCE

    def _warn(self) -> None:
        """Of the training's sequences only: what is wrong with them is so with the held-out ones."""
        if self.shards and self.shards[0].startswith("heldout"):
            return
        most, share = self.config.max_predictions_per_seq, self.config.masked_lm_prob
        length, lengths = self.config.sequence_length, self.labels_by_length.sum(axis=0)
        wanted = np.arange(len(lengths)) * share
        if most is not None and (lengths * np.minimum(wanted, most)).sum() < 0.9 * (lengths * wanted).sum():
            logger.warning(
                "only %.1f %% of the tokens are predicted, not %g %%: max_predictions_per_seq %d is too few at "
                "sequence_length %d; set it to %d",
                *(100 * self.counts["predicted"] / self.counts["tokens"], 100 * share),
                *(most, length, math.ceil(share * length)),
            )
        sequences = self.counts["sequences"]
        if self.config.packing == "pairs" and self.counts["free"] < sequences / 20:
            logger.warning(
                "%.1f %% of the pairs are random ones, and hardly any could be either: next sentence prediction has "
                "nothing to learn; give documents of several sentences, several in each shard (a blank line ends a "
                "document of a .txt), or set mask.packing: full_sentences and pretrain.objective: mlm",
                100 * self.labels_by_length[1].sum() / sequences,
            )

    def _balance_p_value(self) -> float:
        from scipy import stats  # a second, which the workers that count need not spend

        free = self.counts["free"]
        return float(stats.binomtest(self.counts["free_ones"], free, 0.5).pvalue) if free else 1.0


def _p_value(found_and_expected: NDArray[np.float64]) -> float:
    """Chi-square of (2, K) counts, those that are hardly expected as one, by its Poisson tail; what cannot occur must
    not."""
    from scipy import stats

    found, expected = found_and_expected
    possible = expected > 1e-9
    if found[~possible].any():
        return 0.0
    small = expected < _LEAST_EXPECTED
    rare_found, rare_expected = found[small].sum(), expected[small].sum()
    found, expected = found[~small], expected[~small]
    by_tail = 1.0
    if rare_expected >= _LEAST_EXPECTED:
        found, expected = np.append(found, rare_found), np.append(expected, rare_expected)
    elif rare_found:
        by_tail = float(stats.poisson.sf(rare_found - 1, rare_expected))
    if len(found) < 2:
        return by_tail
    # Both tests are one: each may fail half as often.
    by_shares = float(stats.chisquare(found, expected * (found.sum() / expected.sum())).pvalue)
    return by_shares if by_tail == 1 else min(1.0, 2 * min(by_tail, by_shares))


def unigram_baseline(train_counts: NDArray[np.int64], labels: NDArray[np.int64]) -> dict[str, float]:
    """Loss (nats per token) and accuracy of predicting tokens, of which there are `labels` (V,) of each entry, from the
    frequencies of the training tokens alone.

    `train_counts` (V,) is smoothed by adding one.
    """
    probabilities = (train_counts + 1) / (train_counts.sum() + len(train_counts))
    return {
        "loss": float(-(labels * np.log(probabilities)).sum() / labels.sum()),
        "accuracy": float(labels[train_counts.argmax()] / labels.sum()),
    }
