"""BERT as Hugging Face's classes have it: their names of parameters, and (B, L) arrays with an attention mask.

It is written apart from `bertcore.model`, which it checks: what a saved directory means is decided by the names in it.
Nothing is dropped out here, and every tensor stands in a place that a standard ONNX graph can have.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.export.fusible import ACTIVATIONS, attention, bias_of
from bertcore.export.padded_heads import PaddedHead
from bertcore.model.albert import AlbertConfig
from bertcore.model.bert import BertConfig, BertLayerConfig
from bertcore.model.electra import ElectraConfig


class PaddedModel(nn.Module):
    """`BertModel`. Called with `input_ids`, `attention_mask` and `token_type_ids`, each (B, L) int64, it gives the
    outputs of Hugging Face's class of the same name, in the same order."""

    def __init__(self, config: BertConfig, has_pooler: bool = True) -> None:
        super().__init__()
        width = config.hidden_size
        self.embeddings = embeddings_of(config, width)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)}) if has_pooler else None

    def embedded(self, input_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """(B, L, H), before they are normalised."""
        return embedded(self.embeddings, input_ids, token_type_ids)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        hidden = self.embeddings["LayerNorm"](self.embedded(input_ids, token_type_ids))
        bias = bias_of(attention_mask[:, None, None, :], hidden)
        for layer in self.encoder["layer"].children():
            hidden = layer(hidden, bias)
        return (hidden,) if self.pooler is None else (hidden, torch.tanh(self.pooler["dense"](hidden[:, 0])))


def embeddings_of(config: BertConfig | AlbertConfig | ElectraConfig, width: int) -> nn.ModuleDict:
    """`BertEmbeddings`, of any width."""
    return nn.ModuleDict(
        {
            "word_embeddings": nn.Embedding(config.vocab_size, width),
            "position_embeddings": nn.Embedding(config.max_position_embeddings, width),
            "token_type_embeddings": nn.Embedding(config.type_vocab_size, width),
            "LayerNorm": nn.LayerNorm(width, eps=config.layer_norm_eps),
        }
    )


def embedded(embeddings: nn.ModuleDict, input_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
    """(B, L, width), before they are normalised."""
    place = torch.arange(input_ids.shape[1], device=input_ids.device)
    words = embeddings["word_embeddings"](input_ids) + embeddings["token_type_embeddings"](token_type_ids)
    return words + embeddings["position_embeddings"](place)


class Layer(nn.Module):
    """`BertLayer`: (B, L, H) -> (B, L, H), with the (B, 1, 1, L) `bias_of` the keys."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        projections = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"self": projections, "output": dense_and_norm(width, config)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output = dense_and_norm(inner, config)
        self.activation, self.num_heads = ACTIVATIONS[config.hidden_act], config.num_attention_heads

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        query, key, value = (
            projection(hidden).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, A, L, D)
            for projection in self.attention["self"].values()  # type: ignore[operator]
        )
        context = attention(query, key, value, bias)
        hidden = add_and_norm(self.attention["output"], context.transpose(1, 2).flatten(2), hidden)
        return add_and_norm(self.output, self.activation(self.intermediate["dense"](hidden)), hidden)


class PaddedForPreTraining(PaddedHead):
    """`BertForPreTraining`, or `BertForMaskedLM` without pooler and next-sentence head."""

    def __init__(self, config: BertConfig, has_pooler: bool) -> None:
        super().__init__("bert", PaddedModel(config, has_pooler))
        heads: dict[str, nn.Module] = {"predictions": Predictions(config)}
        if has_pooler:
            heads["seq_relationship"] = nn.Linear(config.hidden_size, 2)
        self.cls = nn.ModuleDict(heads)

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        logits = self.cls["predictions"](hidden, self.get_parameter("bert.embeddings.word_embeddings.weight"))
        return (logits, *map(self.cls["seq_relationship"], pooled)) if pooled else (logits,)


class Predictions(nn.Module):
    """`BertLMPredictionHead`."""

    def __init__(self, config: BertLayerConfig) -> None:
        super().__init__()
        self.transform = dense_and_norm(config.hidden_size, config)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        transformed = self.transform["LayerNorm"](self.activation(self.transform["dense"](hidden)))
        return functional.linear(transformed, embeddings, self.bias)


def dense_and_norm(inputs: int, config: BertLayerConfig) -> nn.ModuleDict:
    norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
    return nn.ModuleDict({"dense": nn.Linear(inputs, config.hidden_size), "LayerNorm": norm})


def add_and_norm(block: nn.Module, values: Tensor, residual: Tensor) -> Tensor:
    return block["LayerNorm"](block["dense"](values) + residual)  # type: ignore[index]
