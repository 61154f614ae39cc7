"""Masked language modelling, with a share of the sequences read from left to right (Charpentier and Samuel 2024).

A causal sequence has no masks: every token but the last predicts the next one, and sees none of those behind it. Layers
and head are those of the masked tokens. GPT-BERT predicts these from the place before, too; here each is predicted
where it stands, so that the result is its architecture's published class. Held-out text is masked throughout.
"""

from dataclasses import dataclass, replace

import torch

from bertcore.config import within
from bertcore.model.encoder import EncoderModule
from bertcore.model.layout import Layout, filled, rounded
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.masked_language_modeling import class_sums
from bertcore.objectives.objective import Objective, ObjectiveRow, Sums


@dataclass(frozen=True, kw_only=True)
class CausalOptions:
    """`pretrain.objective_options` of objective `mlm_clm`."""

    causal_share: float = 0.0625
    """Of the sequences: those that are read from left to right, drawn one by one; and of the loss of a batch that has
    any; of batches of 16 sequences two in three have."""

    def __post_init__(self) -> None:
        within(self, "causal_share", "a share above 0 and below 1, such as 0.0625", above=0, below=1)


class MaskedAndCausal(Objective):
    """The masked tokens of most sequences (`mlm`), and the next tokens of the others (`clm`)."""

    def __init__(self, model: EncoderModule, options: CausalOptions) -> None:
        super().__init__()
        self._share = options.causal_share
        self.weights = {"mlm": 1.0, "clm": self._share / (1 - self._share)}

    def arranged(self, batch: PreTrainingBatch) -> PreTrainingBatch:
        """Each sequence is causal with the probability of the share; the causal ones stand last."""
        assert batch.sequence_draws is not None, "a batch without draws for its sequences"
        causal = batch.sequence_draws < self._share
        return with_causal(batch, causal) if bool(causal.any()) else batch

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        return {"mlm": batch.num_predictions - batch.causal_predictions, "clm": batch.causal_predictions}

    def forward(self, model: EncoderModule, batch: PreTrainingBatch) -> dict[str, Sums]:
        masked, causal = self.counts(batch).values()
        rows = batch.masked_positions  # with those that fill them up
        states = model.base_model.hidden_states(batch.input_ids, batch.token_type_ids, batch.layout, rows)
        terms = {"mlm": _sums(model, states[:masked], batch.masked_labels[:masked])}
        if self.training:  # also where no sequence of this process is causal: all processes have the same terms
            terms["clm"] = _sums(model, states[masked : masked + causal], batch.masked_labels[masked:])
        return terms

    def predictions(self, tokens: int, masked: int) -> int:
        return round((1 - self._share) * masked + self._share * tokens)


def _sums(model: EncoderModule, states: torch.Tensor, labels: torch.Tensor) -> Sums:
    """(N, H) states and (N,) tokens."""
    return class_sums(model.token_logits(filled(states)), labels)


def with_causal(batch: PreTrainingBatch, causal: torch.Tensor) -> PreTrainingBatch:
    """The sequences where `causal` (B,) is True get their masked tokens back, and stand last."""
    order = torch.argsort(causal.to(torch.int8), stable=True)
    layout = Layout.from_lengths(batch.layout.lengths[order], causal=int(causal.sum()))
    tokens = batch.layout.first_tokens[order].repeat_interleave(layout.lengths) + layout.position_ids
    place = torch.empty_like(tokens).index_copy_(0, tokens, torch.arange(layout.total))
    split = layout.total - layout.causal_tokens

    masked = batch.counted_positions
    original = batch.input_ids.index_copy(0, masked, batch.masked_labels)
    ids = torch.cat([batch.input_ids[tokens[:split]], original[tokens[split:]]])
    kept = place[masked] < split
    has_next = torch.ones(layout.total, dtype=torch.bool)
    has_next[layout.cumulative[1:].long() - 1] = False
    predicting = split + has_next[split:].nonzero().squeeze(1)
    positions = torch.cat([place[masked][kept], predicting])
    return replace(
        batch,
        input_ids=ids,
        token_type_ids=batch.token_type_ids[tokens],
        layout=layout,
        masked_positions=rounded(positions),
        masked_labels=torch.cat([batch.masked_labels[kept], ids[predicting + 1]]),
        masked_draws=None,
        sequence_draws=None,
        causal_predictions=len(predicting),
    )


MLM_CLM = ObjectiveRow(options=CausalOptions, build=MaskedAndCausal, packings=("full_sentences", "doc_sentences"))
