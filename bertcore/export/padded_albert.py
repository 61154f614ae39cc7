"""ALBERT as Hugging Face's classes have it: their names of parameters, and (B, L) arrays with an attention mask.

Written apart from `bertcore.model`, as `padded_bert` is for BERT.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.export.fusible import ACTIVATIONS, attention, bias_of
from bertcore.export.padded_bert import embedded, embeddings_of
from bertcore.export.padded_heads import PaddedHead
from bertcore.model.albert import AlbertConfig


class PaddedAlbert(nn.Module):
    """`AlbertModel`."""

    def __init__(self, config: AlbertConfig, has_pooler: bool = True) -> None:
        super().__init__()
        width, embedding = config.hidden_size, config.embedding_size
        self.embeddings = embeddings_of(config, embedding)
        groups = [nn.ModuleDict({"albert_layers": nn.ModuleList([_Layer(config)])}) for _ in set(config.order)]
        projection = nn.Linear(embedding, width)
        self.encoder = nn.ModuleDict(
            {"embedding_hidden_mapping_in": projection, "albert_layer_groups": nn.ModuleList(groups)}
        )
        self.pooler = nn.Linear(width, width) if has_pooler else None
        self.layers, self.groups = config.num_hidden_layers, config.num_hidden_groups

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        normed = self.embeddings["LayerNorm"](embedded(self.embeddings, input_ids, token_type_ids))
        hidden = self.encoder["embedding_hidden_mapping_in"](normed)
        bias = bias_of(attention_mask[:, None, None, :], hidden)
        for layer in range(self.layers):
            group = int(layer / (self.layers / self.groups))
            hidden = self.encoder.get_submodule(f"albert_layer_groups.{group}.albert_layers.0")(hidden, bias)
        return (hidden,) if self.pooler is None else (hidden, torch.tanh(self.pooler(hidden[:, 0])))


class _Layer(nn.Module):
    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        parts: dict[str, nn.Module] = {name: nn.Linear(width, width) for name in ("query", "key", "value", "dense")}
        self.attention = nn.ModuleDict(parts | {"LayerNorm": nn.LayerNorm(width, eps=config.layer_norm_eps)})
        self.ffn = nn.Linear(width, config.intermediate_size)
        self.ffn_output = nn.Linear(config.intermediate_size, width)
        self.full_layer_layer_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.activation, self.num_heads = ACTIVATIONS[config.hidden_act], config.num_attention_heads

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        query, key, value = (
            self.attention[name](hidden).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, A, L, D)
            for name in ("query", "key", "value")
        )
        context = attention(query, key, value, bias)
        attended = self.attention["dense"](context.transpose(1, 2).flatten(2))
        hidden = self.attention["LayerNorm"](hidden + attended)
        return self.full_layer_layer_norm(self.ffn_output(self.activation(self.ffn(hidden))) + hidden)


class PaddedAlbertForPreTraining(PaddedHead):
    """`AlbertForPreTraining`, or `AlbertForMaskedLM` without pooler and sentence-order head."""

    def __init__(self, config: AlbertConfig, has_pooler: bool) -> None:
        super().__init__("albert", PaddedAlbert(config, has_pooler))
        width, embedding = config.hidden_size, config.embedding_size
        norm = nn.LayerNorm(embedding, eps=config.layer_norm_eps)
        self.predictions = nn.ModuleDict({"dense": nn.Linear(width, embedding), "LayerNorm": norm})
        self.predictions.register_parameter("bias", nn.Parameter(torch.zeros(config.vocab_size)))
        self.sop_classifier = nn.ModuleDict({"classifier": nn.Linear(width, 2)}) if has_pooler else None
        self.activation = ACTIVATIONS[config.hidden_act]

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        transformed = self.predictions["LayerNorm"](self.activation(self.predictions["dense"](hidden)))
        table = self.get_parameter("albert.embeddings.word_embeddings.weight")
        bias = self.predictions.get_parameter("bias")
        logits = functional.linear(transformed, table, bias)
        return (logits,) if self.sop_classifier is None else (logits, self.sop_classifier["classifier"](pooled[0]))
