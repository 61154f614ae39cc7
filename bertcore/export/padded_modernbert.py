"""ModernBERT as Hugging Face's classes have it: their names of parameters, and (B, L) arrays with an attention mask.

Written apart from `bertcore.model`, as `padded_bert` is for BERT. Segments are taken and ignored.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.export.fusible import attention, bias_of, gelu
from bertcore.export.padded_heads import PaddedHead
from bertcore.model.modernbert_config import ModernBertConfig


class PaddedModernBert(nn.Module):
    """`ModernBertModel`."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        embeddings = {"tok_embeddings": nn.Embedding(config.vocab_size, config.hidden_size), "norm": _norm(config)}
        self.embeddings = nn.ModuleDict(embeddings)
        self.layers = nn.ModuleList(_Layer(config, index) for index in range(config.num_hidden_layers))
        self.final_norm = _norm(config)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        hidden = self.embeddings["norm"](self.embeddings["tok_embeddings"](input_ids))
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        distance = (place[:, None] - place).abs()
        for layer in self.layers:
            hidden = layer(hidden, attention_mask[:, None, None, :].bool(), place, distance)
        return (self.final_norm(hidden),)


class _Layer(nn.Module):
    def __init__(self, config: ModernBertConfig, index: int) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        sees_all = index % config.global_attn_every_n_layers == 0
        self.attn_norm = _norm(config) if index else nn.Identity()
        self.attn = nn.ModuleDict({"Wqkv": _linear(width, 3 * width), "Wo": _linear(width, width)})
        self.mlp_norm = _norm(config)
        self.mlp = nn.ModuleDict({"Wi": _linear(width, 2 * inner), "Wo": _linear(inner, width)})
        self.reach = config.max_position_embeddings if sees_all else config.local_attention // 2
        theta = config.global_rope_theta if sees_all else config.local_rope_theta
        exponents = torch.arange(0, config.head_size, 2, dtype=torch.float32, device="cpu") / config.head_size
        self.frequencies = (1.0 / theta**exponents).tolist()
        self.num_heads = config.num_attention_heads

    def forward(self, hidden: Tensor, keys: Tensor, place: Tensor, distance: Tensor) -> Tensor:
        qkv = self.attn["Wqkv"](self.attn_norm(hidden)).unflatten(-1, (3, self.num_heads, -1))
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # (B, A, L, D)
        angles = place[:, None] * torch.tensor(self.frequencies, device=hidden.device)
        # Padding sees itself, so that no row is empty.
        seen = (keys & (distance <= self.reach)) | (distance == 0)
        context = attention(_turn(query, angles), _turn(key, angles), value, bias_of(seen, hidden))
        hidden = hidden + self.attn["Wo"](context.transpose(1, 2).flatten(2))
        activated, gate = self.mlp["Wi"](self.mlp_norm(hidden)).chunk(2, -1)
        return hidden + self.mlp["Wo"](gelu(activated) * gate)


def _turn(values: Tensor, angles: Tensor) -> Tensor:
    first, second = values.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class _WithHead(PaddedHead):
    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__("model", PaddedModernBert(config))
        self.head = nn.ModuleDict({"dense": _linear(config.hidden_size, config.hidden_size), "norm": _norm(config)})

    def transformed(self, hidden: Tensor) -> Tensor:
        return self.head["norm"](gelu(self.head["dense"](hidden)))


class PaddedModernBertForMaskedLM(_WithHead):
    """`ModernBertForMaskedLM`."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__(config)
        self.decoder = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(config.vocab_size))})

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        table = self.get_parameter("model.embeddings.tok_embeddings.weight")
        return (functional.linear(self.transformed(hidden), table, self.decoder["bias"]),)


class PaddedModernBertForTokenClassification(_WithHead):
    """`ModernBertForTokenClassification`, and the base of the others."""

    def __init__(self, config: ModernBertConfig, num_labels: int) -> None:
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, num_labels)

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return (self.classifier(self.transformed(hidden)),)


class PaddedModernBertForQuestionAnswering(PaddedModernBertForTokenClassification):
    """`ModernBertForQuestionAnswering`."""

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return super().outputs(hidden)[0].unbind(-1)


class PaddedModernBertForSequenceClassification(PaddedModernBertForTokenClassification):
    """`ModernBertForSequenceClassification`."""

    def __init__(self, config: ModernBertConfig, num_labels: int) -> None:
        super().__init__(config, num_labels)
        self.pooling = config.classifier_pooling

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        (hidden,) = self.get_submodule("model")(input_ids, attention_mask)
        if self.pooling == "cls":
            return self.outputs(hidden[:, 0])
        mask = attention_mask[:, :, None].to(hidden.dtype)
        return self.outputs((hidden * mask).sum(1) / mask.sum(1))


def _norm(config: ModernBertConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)
