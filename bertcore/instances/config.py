"""Section `mask` of params.yaml: how sentences become sequences, and which of their tokens are predicted."""

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertcore import draws
from bertcore.config import within
from bertcore.tokens.tokenizer import Vocabulary

Packing = Literal["pairs", "sentence_order", "full_sentences", "doc_sentences"]
Unit = Literal["token", "whole_word", "span"]
SpanLengths = Literal["harmonic", "geometric"]
Rounding = Literal["bert", "roberta"]
RandomIds = Literal["whole_vocabulary", "no_special"]

MOST_TOKENS = 2**16 - 1
"""Of a sequence: a word's place in it has 16 bits in `masking`."""
_MOST_COPIES = 1000
"""Of the corpus, each of which is written; BERT's had 10."""
_GEOMETRIC = 0.8
"""How likely a span goes on behind each of its words (Joshi et al. 2020, section 3.1)."""

LABELS: dict[Packing, str] = {"pairs": "random_next", "sentence_order": "swapped"}
"""What label 1 of a sequence means, by packing; the others have no labels."""


@dataclass(frozen=True, kw_only=True)
class MaskingRule:
    """Which tokens of a sequence are predicted, and what stands in their place."""

    masking: Unit = "token"
    """What is chosen to be predicted: pieces, whole words (BERT's whole-word masking), or n-grams of whole words
    (`span`, ALBERT and SpanBERT)."""
    max_ngram: int = 3
    """Words of a span at most (SpanBERT: 10); of `masking: span` only."""
    span_lengths: SpanLengths = "harmonic"
    """How the words of a span (of `masking: span` only) are drawn: p(n) ~ 1/n (`harmonic`, ALBERT), or p(n) ~ 0.8^n
    (`geometric`, SpanBERT: a geometric distribution with p = 0.2)."""
    masked_lm_prob: float = 0.15
    """Share of a sequence's tokens, special tokens counted, that are predicted."""
    max_predictions_per_seq: int | None = 20
    """Predicted tokens of one sequence at most; None = no bound (RoBERTa)."""
    rounding: Rounding = "bert"
    """How the share becomes a number: max(1, round(p * length)), or `roberta`'s int(p * length + U) with U uniform in
    [0, 1)."""
    mask_share: float = 0.8
    """Of the predicted tokens, the share that [MASK] replaces (ELECTRA: 0.85)."""
    random_share: float = 0.1
    """Of the predicted tokens, the share that a random id replaces; the rest stays (ELECTRA: 0)."""
    random_ids: RandomIds = "whole_vocabulary"
    """What random ids are drawn from: `whole_vocabulary` (BERT) or `no_special` tokens among them (RoBERTa)."""
    replace_unit: Literal["token", "word", "span"] = "token"
    """What is replaced together: nothing, each token is for itself (BERT, ALBERT), the pieces of a predicted word, or
    all predicted tokens that stand side by side (SpanBERT)."""

    def __post_init__(self) -> None:
        within(self, "masked_lm_prob", "a share between 0 and 1", above=0, below=1)
        within(self, "max_predictions_per_seq", "at least 1, or null for no bound", least=1)
        within(self, "max_ngram", "between 1 and 16 words", least=1, most=16)
        if self.mask_share < 0 or self.random_share < 0 or not 0 < self.mask_share + self.random_share <= 1:
            raise ValueError(
                f"mask_share: found {self.mask_share} beside random_share {self.random_share}, expected two shares "
                "of more than 0 and at most 1 together, such as 0.8 and 0.1"
            )
        if self.replace_unit != "token" and self.masking == "token":
            raise ValueError(
                f"replace_unit: found {self.replace_unit!r} with masking 'token', expected masking 'whole_word' or "
                "'span', which choose whole words; correct one of them"
            )

    def with_share(self, masked_lm_prob: float) -> "MaskingRule":
        """The same rule for another share of tokens; the bound of predictions follows it."""
        rule = MaskingRule(**{field.name: getattr(self, field.name) for field in fields(MaskingRule)})
        most = self.max_predictions_per_seq
        bound = None if most is None else math.ceil(most * masked_lm_prob / self.masked_lm_prob - 1e-9)
        return replace(rule, masked_lm_prob=masked_lm_prob, max_predictions_per_seq=bound)

    @property
    def longest(self) -> int:
        """Words of one choice at most."""
        return self.max_ngram if self.masking == "span" else 1

    @property
    def length_weights(self) -> NDArray[np.float64]:
        """(longest,) how often a choice has one word, two words and so on, up to a factor."""
        words = np.arange(1, self.longest + 1, dtype=np.float64)
        weights: NDArray[np.float64] = _GEOMETRIC**words if self.span_lengths == "geometric" else 1 / words
        return weights

    def bounds(self, lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The least and the greatest number of predictions that sequences of `lengths` may ask for."""
        exact = lengths * self.masked_lm_prob
        if self.rounding == "bert":
            low = high = np.maximum(np.rint(exact).astype(np.int64), 1)  # half to even, as the reference
        else:
            low, high = np.floor(exact).astype(np.int64), np.ceil(exact).astype(np.int64)
        most = self.max_predictions_per_seq
        return (low, high) if most is None else (np.minimum(low, most), np.minimum(high, most))

    def budgets(self, lengths: NDArray[np.int64], keys: draws.U64) -> NDArray[np.int64]:
        """How many predictions each sequence asks for."""
        low, high = self.bounds(lengths)
        if self.rounding == "bert":
            return low
        wanted = np.floor(lengths * self.masked_lm_prob + draws.uniform(draws.key("count"), keys)).astype(np.int64)
        return np.clip(wanted, low, high)

    def random_pool(self, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """The ids that random ones are drawn from."""
        keep = np.ones(vocabulary.size, bool) if self.random_ids == "whole_vocabulary" else ~vocabulary.special
        return np.flatnonzero(keep)


HELD_OUT = MaskingRule(max_predictions_per_seq=None)
"""The rule of every held-out evaluation, whatever the training's masks are, so that trainings whose sequences are made
alike can be compared."""


@dataclass(frozen=True, kw_only=True)
class LongerSequences:
    """`mask.second_phase`: the same text once more as longer sequences, for the last part of the training."""

    sequence_length: int = 512
    """Tokens of a sequence at most, special tokens included."""
    max_predictions_per_seq: int | None = 80
    """Predicted tokens of one sequence at most; None = no bound."""

    def __post_init__(self) -> None:
        within(self, "sequence_length", f"at most {MOST_TOKENS} tokens", most=MOST_TOKENS)
        within(self, "max_predictions_per_seq", "at least 1, or null for no bound", least=1)


@dataclass(frozen=True, kw_only=True)
class MaskConfig(MaskingRule):
    """How token shards become pre-training instances: the sequences, and the rule of their masks."""

    sequence_length: int = 128
    """Tokens of a sequence at most, special tokens included."""
    packing: Packing = "pairs"
    """What a sequence is made of: BERT's sentence pairs, ALBERT's sentence order, RoBERTa's FULL- or DOC-SENTENCES.

    As in the paper, attention crosses the documents that `full_sentences` puts into one sequence; `doc_sentences`
    never puts two into one."""
    duplicates: int = 1
    """Static masked copies of the corpus (BERT's `dupe_factor`), one an epoch, then again from the first; 0 draws anew
    in every epoch (RoBERTa's dynamic masking)."""
    masked_lm_prob_start: float | None = None
    """Share predicted in step 0 of the training; it falls linearly to `masked_lm_prob` in the last step, and
    `max_predictions_per_seq` with it. None = `masked_lm_prob` in all steps. Of masks that are drawn while training."""
    short_seq_prob: float = 0.1
    """Share of the documents whose pairs are made shorter than `sequence_length`; of pairs and sentence order only."""
    second_phase: LongerSequences | None = None
    """Longer sequences for the end of the training (`pretrain.second_phase`); None = one length throughout."""
    seed: int = 1
    """Of the pairs and of the masks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "sequence_length", f"between 8 and {MOST_TOKENS} tokens", least=8, most=MOST_TOKENS)
        if self.second_phase and self.second_phase.sequence_length <= self.sequence_length:
            raise ValueError(
                f"second_phase.sequence_length: found {self.second_phase.sequence_length}, expected more than that of "
                f"the first phase ({self.sequence_length}); raise it or remove second_phase"
            )
        within(self, "duplicates", f"0 (drawn while training) to {_MOST_COPIES} copies", least=0, most=_MOST_COPIES)
        self._check_start()
        within(self, "short_seq_prob", "a probability", least=0, most=1)

    def _check_start(self) -> None:
        start, least = self.masked_lm_prob_start, self.masked_lm_prob
        expected = f"a share above masked_lm_prob ({least}) and below 1, or null for one share throughout"
        within(self, "masked_lm_prob_start", expected, above=least, below=1)
        if start is not None and self.duplicates:
            raise ValueError(
                f"masked_lm_prob_start: found {start} with duplicates {self.duplicates}, but static copies know no "
                "steps; set duplicates: 0, which draws the masks while training, or masked_lm_prob_start: null"
            )

    def rule_at(self, progress: float) -> MaskingRule:
        """The rule after this share of the training's steps: 0 in the first one, 1 in the last."""
        if self.masked_lm_prob_start is None:
            return self
        return self.with_share(self.masked_lm_prob_start + (self.masked_lm_prob - self.masked_lm_prob_start) * progress)

    @property
    def held_out(self) -> "MaskConfig":
        """The same sequences, with the masks of the held-out evaluation."""
        rule = {field.name: getattr(HELD_OUT, field.name) for field in fields(MaskingRule)}
        return replace(self, **rule, masked_lm_prob_start=None)

    @property
    def phases(self) -> list["MaskConfig"]:
        """One config for each length, in the order of training."""
        first = replace(self, second_phase=None)
        if self.second_phase is None:
            return [first]
        second = self.second_phase
        return [
            first,
            replace(
                first,
                sequence_length=second.sequence_length,
                max_predictions_per_seq=second.max_predictions_per_seq,
            ),
        ]
