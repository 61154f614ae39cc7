"""DeBERTa as Hugging Face's classes have it: their names of parameters, and (B, L) arrays with an attention mask.

Written apart from `bertcore.model.deberta`, which it checks, but for the rows that stand for distances: they are a
matter of rounding.
"""

import torch
from torch import Tensor, nn

from bertcore.export.fusible import ACTIVATIONS, attention, bias_of
from bertcore.export.padded_bert import Predictions, add_and_norm, dense_and_norm
from bertcore.export.padded_heads import PaddedHead
from bertcore.model.deberta import DebertaConfig
from bertcore.model.disentangled_attention import rows_of


class PaddedDeberta(nn.Module):
    """`DebertaV2Model`. Called with `input_ids` and `attention_mask`, (B, L) int64, and a third array that is
    ignored."""

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__()
        width, longest = config.hidden_size, config.max_position_embeddings
        self.embeddings = nn.ModuleDict(
            {"word_embeddings": nn.Embedding(config.vocab_size, width), "LayerNorm": _norm(config)}
        )
        layers = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))
        table = nn.Embedding(2 * config.position_buckets, width)
        self.encoder = nn.ModuleDict({"layer": layers, "rel_embeddings": table, "LayerNorm": _norm(config)})
        rows = rows_of(longest, config.position_buckets, config.max_relative_positions, torch.device("cpu"))
        self.register_buffer("rows", rows, persistent=False)
        self.longest = longest

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        hidden = self.embeddings["LayerNorm"](self.embeddings["word_embeddings"](input_ids))
        bias = bias_of(attention_mask[:, None, None, :], hidden)
        table = self.encoder["LayerNorm"](self.get_parameter("encoder.rel_embeddings.weight"))
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        rows = self.get_buffer("rows")[place[:, None] - place + self.longest]  # (L, L), of queries and keys
        for layer in self.encoder["layer"].children():
            hidden = layer(hidden, bias, table, rows)
        return (hidden,)


class _Layer(nn.Module):
    """(B, L, H) -> (B, L, H), with the (B, 1, 1, L) `bias_of` the keys, the (R, H) table of distances, and the row of
    it for each pair of tokens."""

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        projections = {name: nn.Linear(width, width) for name in ("query_proj", "key_proj", "value_proj")}
        self.attention = nn.ModuleDict({"self": nn.ModuleDict(projections), "output": dense_and_norm(width, config)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output = dense_and_norm(inner, config)
        self.activation, self.num_heads = ACTIVATIONS[config.hidden_act], config.num_attention_heads

    def forward(self, hidden: Tensor, bias: Tensor, table: Tensor, rows: Tensor) -> Tensor:
        query, key, value = (self._heads(name, hidden) for name in ("query_proj", "key_proj", "value_proj"))
        of_query, of_key = (self._heads(name, table[None]) for name in ("query_proj", "key_proj"))  # (1, A, R, D)
        pairs = rows.expand(*query.shape[:2], *rows.shape)
        says = (query @ of_key.transpose(-1, -2)).gather(-1, pairs)
        heard = (key @ of_query.transpose(-1, -2)).gather(-1, pairs.transpose(-1, -2)).transpose(-1, -2)
        scale = (3 * query.shape[-1]) ** -0.5
        context = attention(query * 3**-0.5, key, value, (says + heard) * scale + bias)
        attended = context.transpose(1, 2).flatten(2)
        hidden = add_and_norm(self.attention["output"], attended, hidden)
        return add_and_norm(self.output, self.activation(self.intermediate["dense"](hidden)), hidden)

    def _heads(self, name: str, values: Tensor) -> Tensor:
        """(B, L, H) -> (B, A, L, D)."""
        projected: Tensor = self.get_submodule(f"attention.self.{name}")(values)
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


def _norm(config: DebertaConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class PaddedDebertaForMaskedLM(PaddedHead):
    """`DebertaV2ForMaskedLM`."""

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__("deberta", PaddedDeberta(config))
        self.cls = nn.ModuleDict({"predictions": Predictions(config)})

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return (self.cls["predictions"](hidden, self.get_parameter("deberta.embeddings.word_embeddings.weight")),)


class PaddedDebertaForPreTraining(PaddedHead):
    """Version 3's discriminator."""

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__("deberta", PaddedDeberta(config))
        width = config.hidden_size
        layers = {"LayerNorm": _norm(config), "dense": nn.Linear(width, width), "classifier": nn.Linear(width, 1)}
        self.mask_predictions = nn.ModuleDict(layers)
        self.activation = ACTIVATIONS[config.hidden_act]

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        normed = self.mask_predictions["LayerNorm"](hidden[:, :1] + hidden)
        inner = self.activation(self.mask_predictions["dense"](normed))
        return (self.mask_predictions["classifier"](inner).squeeze(-1),)


class PaddedDebertaForSequenceClassification(PaddedHead):
    """`DebertaV2ForSequenceClassification`."""

    def __init__(self, config: DebertaConfig, num_labels: int) -> None:
        super().__init__("deberta", PaddedDeberta(config))
        self.pooler = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.hidden_size)})
        self.classifier = nn.Linear(config.hidden_size, num_labels)
        self.activation = ACTIVATIONS[config.pooler_hidden_act]

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return (self.classifier(self.activation(self.pooler["dense"](hidden[:, 0]))),)
