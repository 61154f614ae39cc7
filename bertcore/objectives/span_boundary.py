"""Masked language modelling with the span-boundary objective (Joshi et al. 2020, SpanBERT, section 3.2).

Beside the masked tokens themselves (`mlm`), every token of a span is predicted from the two states that stand at the
span's ends, outside of it, and from its place in the span (`sbo`). A span is all masked tokens that stand side by side:
the published code joins spans that touch, too. The head for it is trained with the model, and is not saved with it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.model.encoder import EncoderModule
from bertcore.model.initialization import initialize
from bertcore.model.layout import rounded
from bertcore.model.normalization import LayerNorm
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.masked_language_modeling import class_sums
from bertcore.objectives.objective import (
    Objective,
    ObjectiveRow,
    Sums,
    last_layer_flops,
    require_weights,
)

PLACES = 20
"""Tokens of a span that are predicted from its ends at most; those behind them are not."""
PLACE_SIZE = 200
"""Width of the embedding of a place in a span."""


@dataclass(frozen=True, kw_only=True)
class SpanBoundaryOptions:
    """`pretrain.objective_options` of objective `mlm_sbo`."""

    mlm_weight: float = 1.0
    """Of the masked tokens in the loss."""
    sbo_weight: float = 1.0
    """Of the tokens predicted from the ends of their spans."""

    def __post_init__(self) -> None:
        require_weights(self, "mlm_weight", "sbo_weight")


class SpanBoundaryHead(nn.Module):
    """(N, H) states before and behind spans, (N,) places in them -> (N, V) logits of the tokens there."""

    def __init__(self, hidden_size: int, table: nn.Embedding) -> None:
        super().__init__()
        entries, width = table.weight.shape
        self.places = nn.Embedding(PLACES, PLACE_SIZE)
        self.inner = nn.Linear(2 * hidden_size + PLACE_SIZE, hidden_size)
        self.inner_norm = LayerNorm(hidden_size)
        self.outer = nn.Linear(hidden_size, width)
        self.outer_norm = LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(entries))

    def forward(self, before: Tensor, behind: Tensor, places: Tensor, table: Tensor) -> Tensor:
        """`table` (V, E) are the embeddings of the vocabulary, which the model's own head has too."""
        given = torch.cat([before, behind, self.places(places).to(before.dtype)], 1)
        inner = self.inner_norm(functional.gelu(self.inner(given)))
        return functional.linear(self.outer_norm(functional.gelu(self.outer(inner))), table, self.bias)


@dataclass(frozen=True)
class Spans:
    """N tokens of spans, those of the first `PLACES` places."""

    index: Tensor
    """(N,) int64: which of the masked tokens each one is."""
    before: Tensor
    """(N,) int64: flat position of the token before its span."""
    behind: Tensor
    """(N,) int64: of the one behind it."""
    places: Tensor
    """(N,) int64: places in the span, from 0."""


def spans_of(positions: Tensor) -> Spans:
    """(M,) flat positions of masked tokens, ascending. A sequence's first and last token are never masked, so every
    span has two ends in its own sequence."""
    apart = torch.ones(len(positions) + 1, dtype=torch.bool, device=positions.device)
    if len(positions):
        apart[1:-1] = positions.diff() != 1
    span = apart[:-1].cumsum(0) - 1
    starts, ends = positions[apart[:-1]][span], positions[apart[1:]][span]
    places = positions - starts
    index = (places < PLACES).nonzero().squeeze(1)
    return Spans(index, *(each[index] for each in (starts - 1, ends + 1, places)))


class SpanBoundaryModeling(Objective):
    """The masked tokens, from their own states and from the ends of their spans."""

    def __init__(self, model: EncoderModule, options: SpanBoundaryOptions) -> None:
        super().__init__()
        self.weights = {"mlm": options.mlm_weight, "sbo": options.sbo_weight}
        self.head = SpanBoundaryHead(model.config.hidden_size, model.base_model.token_embeddings)
        self._config = model.config
        initialize(self.head, model.config)

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        return {"mlm": batch.num_predictions, "sbo": len(self._spans(batch).index)}

    def forward(self, model: EncoderModule, batch: PreTrainingBatch) -> dict[str, Sums]:
        spans, masked = self._spans(batch), batch.masked_positions
        before, behind, places = map(rounded, (spans.before, spans.behind, spans.places))
        rows = torch.cat([masked, before, behind])
        states = model.base_model.hidden_states(batch.input_ids, batch.token_type_ids, batch.layout, rows)
        own, before, behind = states.split([len(masked), len(places), len(places)])
        logits = self.head(before, behind, places, model.base_model.token_embeddings.weight)
        return {
            "mlm": class_sums(model.token_logits(own), batch.masked_labels),
            "sbo": class_sums(logits, batch.masked_labels[spans.index]),
        }

    @staticmethod
    def _spans(batch: PreTrainingBatch) -> Spans:
        return spans_of(batch.counted_positions)

    def further_flops(self, batch: PreTrainingBatch) -> int:
        """The last layer at the ends of the spans, and the head."""
        count, width = len(self._spans(batch).index), self._config.hidden_size
        table_width = self.head.outer.out_features
        ends = last_layer_flops(self._config, batch, 2 * count, table_width)
        head = (2 * width + PLACE_SIZE) * width + width * table_width + table_width * self._config.vocab_size
        return ends + 2 * count * head


MLM_SBO = ObjectiveRow(
    options=SpanBoundaryOptions, build=SpanBoundaryModeling, packings=("full_sentences", "doc_sentences")
)
