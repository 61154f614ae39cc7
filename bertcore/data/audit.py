"""Proof that the instances are what the recipe says: counted from the written instances, not from the code that drew
them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bertcore.data.instances import Instances, MaskConfig
from bertcore.data.pairing import IS_RANDOM
from bertcore.data.shards import Vocabulary
from bertcore.errors import ArtifactError

# A sound run fails a check of this level once in a million audits.
_SIGNIFICANCE = 1e-6
_BINS = 10


@dataclass
class Audit:
    """Counts over any number of instance sets; `report` turns them into metrics, `check` raises where they are off."""

    config: MaskConfig
    vocabulary: Vocabulary
    sequences: int = 0
    tokens: int = 0
    maskable: int = 0
    truncated_tokens: int = 0
    special_chosen: int = 0
    wrong_counts: int = 0
    replacement: NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, np.int64))
    """Predicted tokens that became [MASK], another id, and themselves."""
    chosen_by_place: NDArray[np.float64] = field(default_factory=lambda: np.zeros(_BINS))
    expected_by_place: NDArray[np.float64] = field(default_factory=lambda: np.zeros(_BINS))
    random_by_length: NDArray[np.int64] = field(init=False)
    """(2, sequence_length + 1) sequences with a true and with a random next segment, by their length."""

    def __post_init__(self) -> None:
        self.random_by_length = np.zeros((2, self.config.sequence_length + 1), np.int64)

    def add(self, instances: Instances) -> None:
        original = instances.tokens.copy()
        original[instances.masked_positions] = instances.masked_labels
        maskable = ~self.vocabulary.special[original] | (original == self.vocabulary.unk)
        lengths, counts = instances.lengths, np.diff(instances.masked_offsets)
        rows = np.repeat(np.arange(len(instances)), lengths)
        available = np.bincount(rows, weights=maskable, minlength=len(instances))

        self.sequences += len(instances)
        self.tokens += len(original)
        self.maskable += int(maskable.sum())
        self.special_chosen += int((~maskable[instances.masked_positions]).sum())
        self.wrong_counts += int((counts != np.minimum(self.config.rule.count(lengths), available)).sum())
        self._count_replacements(instances)
        place = (np.arange(len(original)) - instances.offsets[rows]) * _BINS // lengths[rows]
        self.chosen_by_place += np.bincount(place[instances.masked_positions], minlength=_BINS)
        expected = maskable * (counts / np.maximum(available, 1))[rows]
        self.expected_by_place += np.bincount(place, weights=expected, minlength=_BINS)
        np.add.at(self.random_by_length, (instances.next_sentence_labels.astype(int), lengths), 1)

    def _count_replacements(self, instances: Instances) -> None:
        found = instances.tokens[instances.masked_positions]
        masked, kept = found == self.vocabulary.mask, found == instances.masked_labels
        self.replacement += np.array([masked.sum(), (~masked & ~kept).sum(), kept.sum()])

    def report(self) -> dict[str, Any]:
        """The metrics of the mask stage."""
        predicted = int(self.replacement.sum())
        lengths = self.random_by_length.sum(axis=0)
        histogram = {
            f"{low}-{min(low + 15, len(lengths) - 1)}": int(lengths[low : low + 16].sum())
            for low in range(0, len(lengths), 16)
            if lengths[low : low + 16].any()
        }
        return {
            "sequences": self.sequences,
            "tokens": self.tokens,
            "predicted_tokens": predicted,
            "predicted_share": predicted / self.tokens,
            "mask_share": self.replacement[0] / predicted,
            "random_share": self.replacement[1] / predicted,
            "kept_share": self.replacement[2] / predicted,
            "replacement_p_value": self._replacement_p_value(),
            "position_p_value": self._position_p_value(),
            "special_tokens_predicted": self.special_chosen,
            "sequences_with_wrong_count": self.wrong_counts,
            "random_next_share": self.random_by_length[IS_RANDOM].sum() / self.sequences,
            "next_sentence_by_length_alone_accuracy": self.random_by_length.max(axis=0).sum() / self.sequences,
            "padding_share_if_padded": 1 - self.tokens / (self.sequences * self.config.sequence_length),
            "truncated_tokens": self.truncated_tokens,
            "length_histogram": histogram,
        }

    def check(self) -> None:
        """Raise `ArtifactError` where a rate is off by more than chance allows."""
        problems = {
            "special tokens are predicted": self.special_chosen,
            "sequences have another number of predictions than the rule says": self.wrong_counts,
            "[MASK] / random / kept shares differ from 80/10/10": self._replacement_p_value() < _SIGNIFICANCE,
            "predictions are not uniform over positions": self._position_p_value() < _SIGNIFICANCE,
        }
        for problem, found in problems.items():
            if found:
                raise ArtifactError(
                    f"data/instances: the audit failed: {problem} ({self.report()}); this is a defect: report it"
                )

    def _replacement_p_value(self) -> float:
        """Chi-square against the rule; a random id is the label or [MASK] itself once in the vocabulary's size."""
        rule = self.config.rule
        same = rule.random_share / self.vocabulary.size
        shares = [rule.mask_share + same, rule.random_share - 2 * same, 1 - rule.mask_share - rule.random_share + same]
        predicted = self.replacement.sum()
        return float(stats.chisquare(self.replacement, predicted * np.array(shares)).pvalue)

    def _position_p_value(self) -> float:
        return float(stats.chisquare(self.chosen_by_place, self.expected_by_place).pvalue)


def unigram_baseline(train_counts: NDArray[np.int64], labels: NDArray[Any]) -> dict[str, float]:
    """Loss (nats per token) and accuracy of predicting `labels` from the frequencies of the training tokens alone.

    `train_counts` (V,) is smoothed by adding one.
    """
    probabilities = (train_counts + 1) / (train_counts.sum() + len(train_counts))
    return {
        "loss": float(-np.log(probabilities[labels]).mean()),
        "accuracy": float((labels == train_counts.argmax()).mean()),
    }
