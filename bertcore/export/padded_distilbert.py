"""DistilBERT as Hugging Face's classes have it: their names of parameters, and (B, L) arrays with an attention mask.

Written apart from `bertcore.model.distilbert`, which it checks; see `bertcore.export.padded_bert`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.export.fusible import ACTIVATIONS, attention, bias_of
from bertcore.export.padded_heads import PaddedHead
from bertcore.model.distilbert import DistilBertConfig

_NORM_EPS = 1e-12


class PaddedDistilBert(nn.Module):
    """`DistilBertModel`. Called with `input_ids` and `attention_mask`, (B, L) int64, and a third array that is ignored,
    it gives the outputs of Hugging Face's class, in the same order."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(config.vocab_size, width),
                "position_embeddings": nn.Embedding(config.max_position_embeddings, width),
                "LayerNorm": nn.LayerNorm(width, eps=_NORM_EPS),
            }
        )
        layers = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))
        self.transformer = nn.ModuleDict({"layer": layers})

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        words, places = self.embeddings["word_embeddings"], self.embeddings["position_embeddings"]
        hidden = self.embeddings["LayerNorm"](words(input_ids) + places(place))
        bias = bias_of(attention_mask[:, None, None, :], hidden)
        for layer in self.transformer["layer"].children():
            hidden = layer(hidden, bias)
        return (hidden,)


class _Layer(nn.Module):
    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        names = ("q_lin", "k_lin", "v_lin", "out_lin")
        self.attention = nn.ModuleDict({name: nn.Linear(width, width) for name in names})
        self.sa_layer_norm = nn.LayerNorm(width, eps=_NORM_EPS)
        self.ffn = nn.ModuleDict({"lin1": nn.Linear(width, inner), "lin2": nn.Linear(inner, width)})
        self.output_layer_norm = nn.LayerNorm(width, eps=_NORM_EPS)
        self.activation, self.num_heads = ACTIVATIONS[config.activation], config.num_attention_heads

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        query, key, value = (
            self.attention[name](hidden).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, A, L, D)
            for name in ("q_lin", "k_lin", "v_lin")
        )
        context = attention(query, key, value, bias)
        attended = self.attention["out_lin"](context.transpose(1, 2).flatten(2))
        hidden = self.sa_layer_norm(attended + hidden)
        transformed = self.ffn["lin2"](self.activation(self.ffn["lin1"](hidden)))
        return self.output_layer_norm(transformed + hidden)


class PaddedDistilBertForMaskedLM(PaddedHead):
    """`DistilBertForMaskedLM`."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__("distilbert", PaddedDistilBert(config))
        width = config.hidden_size
        self.vocab_transform = nn.Linear(width, width)
        self.vocab_layer_norm = nn.LayerNorm(width, eps=_NORM_EPS)
        self.vocab_projector = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(config.vocab_size))})
        self.activation = ACTIVATIONS[config.activation]

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        transformed = self.vocab_layer_norm(self.activation(self.vocab_transform(hidden)))
        table = self.get_parameter("distilbert.embeddings.word_embeddings.weight")
        return (functional.linear(transformed, table, self.vocab_projector["bias"]),)


class PaddedDistilBertForSequenceClassification(PaddedHead):
    """`DistilBertForSequenceClassification`."""

    def __init__(self, config: DistilBertConfig, num_labels: int) -> None:
        super().__init__("distilbert", PaddedDistilBert(config))
        self.pre_classifier = nn.Linear(config.hidden_size, config.hidden_size)
        self.classifier = nn.Linear(config.hidden_size, num_labels)

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return (self.classifier(functional.relu(self.pre_classifier(hidden[:, 0]))),)
