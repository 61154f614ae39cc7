"""Masked language modelling, and for every token that is not masked whether it stands in its sequence once more.

The token-document relation of ERNIE 2.0 (Sun et al. 2019, word-aware tasks), within a sequence. Whoever compares two
texts must find the same word elsewhere. Attention learns that from masked tokens late, if at all, and within about a
million tokens where it is asked for. The head for it is trained with the model, and is not saved with it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bertcore.model.encoder import EncoderModule, scores
from bertcore.model.initialization import initialize
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.masked_language_modeling import class_sums
from bertcore.objectives.objective import (
    Objective,
    ObjectiveRow,
    Sums,
    binary_sums,
    last_layer_flops,
    require_weights,
)


@dataclass(frozen=True, kw_only=True)
class RepeatsOptions:
    """`pretrain.objective_options` of objective `mlm_repeats`."""

    mlm_weight: float = 1.0
    """Of the masked tokens in the loss."""
    repeats_weight: float = 1.0
    """Of the tokens of which is asked whether they stand in their sequence once more."""

    def __post_init__(self) -> None:
        require_weights(self, "mlm_weight", "repeats_weight")


class RepeatedTokens(Objective):
    """The masked tokens (`mlm`), and which of the others are repeated (`repeats`)."""

    def __init__(self, model: EncoderModule, options: RepeatsOptions) -> None:
        super().__init__()
        self.weights = {"mlm": options.mlm_weight, "repeats": options.repeats_weight}
        self.head = nn.Linear(model.config.hidden_size, 1)
        self._config, self._table_width = model.config, model.base_model.token_embeddings.embedding_dim
        initialize(self.head, model.config)

    @property
    def of_every_token(self) -> bool:
        return True

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        masked = batch.num_predictions
        return {"mlm": masked, "repeats": batch.layout.total - masked}

    def forward(self, model: EncoderModule, batch: PreTrainingBatch) -> dict[str, Sums]:
        hidden = model.base_model.hidden_states(batch.input_ids, batch.token_type_ids, batch.layout)
        # The number is known, so that nobody waits for a GPU to count them.
        seen = visible(batch)
        asked = seen.nonzero_static(size=self.counts(batch)["repeats"]).squeeze(1)
        masked = hidden.index_select(0, batch.masked_positions)
        of_masked = class_sums(model.token_logits(masked), batch.masked_labels)
        return {"mlm": of_masked, **self.of_visible(hidden, batch, seen, asked)}

    def of_visible(self, hidden: Tensor, batch: PreTrainingBatch, seen: Tensor, asked: Tensor) -> dict[str, Sums]:
        """The terms about tokens that are not masked: (T, H) states, (T,) bool which those are, and (N,) their flat
        positions."""
        logits = scores(self.head, hidden).squeeze(1).index_select(0, asked)
        return {"repeats": binary_sums(logits, repeated(batch, seen)[asked])}

    def further_flops(self, batch: PreTrainingBatch) -> int:
        """The last layer at the tokens that are not masked, and the head."""
        others = self.counts(batch)["repeats"]
        states = last_layer_flops(self._config, batch, others, self._table_width)
        return states + 2 * batch.layout.total * self._config.hidden_size


def visible(batch: PreTrainingBatch) -> Tensor:
    """(T,) bool: which tokens are not masked, whatever stands in the masked ones' place."""
    masked = batch.counted_positions
    return torch.ones_like(batch.input_ids, dtype=torch.bool).index_fill_(0, masked, False)


def repeated(batch: PreTrainingBatch, seen: Tensor) -> Tensor:
    """(T,) bool: which tokens are visible, as (T,) `seen` says, and stand visible at another place of their sequence,
    too."""
    ids, layout = batch.input_ids, batch.layout
    sequences = layout.sequences
    own = -1 - torch.arange(layout.total, device=ids.device)  # like no other one
    alike, order = torch.where(seen, sequences * (ids.max() + 1) + ids, own).sort()
    like_next = alike[1:] == alike[:-1]
    no = like_next.new_zeros(1)
    found = torch.cat([like_next, no]) | torch.cat([no, like_next])
    return torch.empty_like(found).scatter_(0, order, found)


MLM_REPEATS = ObjectiveRow(options=RepeatsOptions, build=RepeatedTokens, packings=("full_sentences", "doc_sentences"))
