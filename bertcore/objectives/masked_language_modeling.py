"""Masked language modelling, alone or with a term about the two segments of a sequence.

The original token at each masked position (Devlin et al. 2018, section 3.1); whether sentence B follows A in its
document (the same section); whether the two segments stand in their order (Lan et al. 2019, section 3.1).
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor

from bertcore.model.config import architecture_of
from bertcore.model.encoder import EncoderModule
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.cross_entropy import cross_entropy
from bertcore.objectives.objective import Objective, ObjectiveRow, Sums, last_layer_flops, require_weights

PairTerm = Literal["nsp", "sop"]


@dataclass(frozen=True, kw_only=True)
class Alone:
    """`pretrain.objective_options` of objective `mlm`: its loss has one term, and nothing to choose."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """`pretrain.objective_options` of objectives `mlm_nsp` and `mlm_sop`."""

    mlm_weight: float = 1.0
    """Of the masked tokens in the loss."""
    pair_weight: float = 1.0
    """Of the pairs in the loss."""

    def __post_init__(self) -> None:
        require_weights(self, "mlm_weight", "pair_weight")


class MaskedLanguageModeling(Objective):
    """The masked tokens and, with `pair_term`, what the label of each pair says, by the architecture's head for it."""

    def __init__(self, model: EncoderModule, options: Alone | Weights, pair_term: PairTerm | None = None) -> None:
        super().__init__()
        self._pair_term, self._config = pair_term, model.config
        self._table_width = model.base_model.token_embeddings.weight.shape[1]
        self.weights = {"mlm": 1.0}
        if pair_term:
            assert isinstance(options, Weights), "two terms without weights"
            self.weights = {"mlm": options.mlm_weight, pair_term: options.pair_weight}

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        counts = {"mlm": batch.num_predictions}
        return counts | {self._pair_term: batch.layout.batch_size} if self._pair_term else counts

    def forward(self, model: EncoderModule, batch: PreTrainingBatch) -> dict[str, Sums]:
        mlm_logits, *further = model(batch.input_ids, batch.token_type_ids, batch.layout, batch.masked_positions)
        terms = {"mlm": class_sums(mlm_logits, batch.masked_labels)}
        if self._pair_term:
            assert batch.next_sentence_labels is not None, f"a batch without labels for {self._pair_term}"
            terms[self._pair_term] = class_sums(further[0], batch.next_sentence_labels)
        return terms

    def further_flops(self, batch: PreTrainingBatch) -> int:
        """Of a head for pairs, which the model computes without a pair term, too: the last layer at first tokens, and
        the pooler."""
        if not architecture_of(self._config).pair_head:
            return 0
        first, width = batch.layout.batch_size, self._config.hidden_size
        return last_layer_flops(self._config, batch, first, self._table_width) + 2 * first * width**2


def class_sums(logits: Tensor, labels: Tensor) -> Sums:
    """(N', C) logits and (N,) classes -> sums over the first N rows. The logits are used up."""
    loss_sum, correct = cross_entropy(logits, labels)
    return Sums(loss_sum=loss_sum, count=len(labels), correct=correct)


MLM = ObjectiveRow(options=Alone, build=MaskedLanguageModeling, packings=("full_sentences", "doc_sentences"))
MLM_NSP = ObjectiveRow(
    options=Weights,
    build=partial(MaskedLanguageModeling, pair_term="nsp"),
    packings=("pairs",),
    needs_pair_head=True,
)
MLM_SOP = ObjectiveRow(
    options=Weights,
    build=partial(MaskedLanguageModeling, pair_term="sop"),
    packings=("sentence_order",),
    needs_pair_head=True,
)
