"""ModernBERT (Warner et al. 2024) on sequences without padding: the encoder, and the encoder with each head.

Normalisation stands before each block, positions turn queries and keys, the feed-forward network is gated, nothing has
a bias, and of the layers each third alone sees the whole sequence, the others a window around each token.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.model import heads
from bertcore.model.architecture import Architecture
from bertcore.model.attention import SelfAttention, selected
from bertcore.model.dropout import dropout
from bertcore.model.encoder import Encoder, Kind, scores
from bertcore.model.initialization import initialize
from bertcore.model.layers import EncoderLayer, LayerStack
from bertcore.model.layout import Layout, by_rounded_rows
from bertcore.model.modernbert_config import PRESETS, ModernBertConfig
from bertcore.model.names import Names
from bertcore.model.normalization import LayerNorm


def _norm(config: ModernBertConfig) -> LayerNorm:
    return LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)


class ModernBertEmbeddings(nn.Module):
    """(T,) token ids -> (T, H), normalised; segments are ignored, and positions come in attention."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.norm = _norm(config)
        self.dropout_prob = config.embedding_dropout

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        return dropout(self.norm(self.tok_embeddings(input_ids)), self.dropout_prob, self.training)


class ModernBertLayer(EncoderLayer):
    """Each block reads its input normalised (that of the first layer's attention is so already) and is added to it."""

    fused: ClassVar[Mapping[str, int]] = {"attention.qkv.weight": 3, "intermediate.weight": 2}

    def __init__(self, config: ModernBertConfig, index: int) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.attention_norm = _norm(config) if index else nn.Identity()
        self.attention = SelfAttention(
            width, config.num_attention_heads, config.attention_dropout, bias=False, positions=config.positions(index)
        )
        self.output_norm = _norm(config)
        self.intermediate = nn.Linear(width, 2 * inner, bias=False)
        self.output = nn.Linear(inner, width, bias=False)
        self.dropout_prob, self.attention_dropout_prob = config.mlp_dropout, config.attention_dropout

    def attention_input(self, hidden: Tensor) -> Tensor:
        return self.attention_norm(hidden)

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        attended = self.attention(self.attention_norm(hidden), layout, rows)
        attended = dropout(attended, self.attention_dropout_prob, self.training)
        # In the type of `hidden`, float32 under autocast: sums of mixed types are slow on the CPU.
        hidden = selected(hidden, rows) + attended.to(hidden.dtype)
        activated, gate = self._halves(self.output_norm(hidden))
        inner = dropout(functional.gelu(activated) * gate, self.dropout_prob, self.training)
        return hidden + self.output(inner).to(hidden.dtype)

    def _halves(self, values: Tensor) -> tuple[Tensor, ...]:
        """What is activated, and its gate, of one product or two: the gradients of one product's halves are copied
        together, which costs a GPU more than a second product."""
        if values.device.type == "cpu":
            return self.intermediate(values).chunk(2, dim=-1)
        return tuple(functional.linear(values, half) for half in self.intermediate.weight.chunk(2))


class ModernBertModel(Encoder):
    """The encoder."""

    architecture = "ModernBertModel"

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__(config)
        self.embeddings = ModernBertEmbeddings(config)
        self.encoder = LayerStack([ModernBertLayer(config, index) for index in range(config.num_hidden_layers)])
        self.final_norm = _norm(config)
        initialize(self, config)
        if config.scale_residual_outputs:
            with torch.no_grad():
                for name, parameter in self.named_parameters():
                    if name.endswith("output.weight"):
                        parameter.mul_(_residual_scale(config))

    @property
    def token_embeddings(self) -> nn.Embedding:
        return self.get_submodule("embeddings.tok_embeddings")  # type: ignore[return-value]

    def final(self, hidden: Tensor) -> Tensor:
        return self.final_norm(hidden)


def _residual_scale(config: ModernBertConfig) -> float:
    return (2 * config.num_hidden_layers) ** -0.5


class PredictionHead(nn.Module):
    """(R, H) -> (R, H): what stands between hidden states and the last layer of every head."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.norm = _norm(config)

    def forward(self, hidden: Tensor) -> Tensor:
        return by_rounded_rows(lambda rows: self.norm(functional.gelu(self.dense(rows))), hidden)


class _WithHead(heads.WithEncoder):
    prefix, encoder_class = "model", ModernBertModel

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__(config)
        self.head = PredictionHead(config)
        initialize(self.head, config)


class ModernBertForMaskedLM(heads.MaskedLM, _WithHead):
    """The encoder with the head for masked tokens."""

    architecture = "ModernBertForMaskedLM"

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__(config)
        self.decoder = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(config.vocab_size))})

    def token_logits(self, states: Tensor) -> Tensor:
        return functional.linear(self.head(states), self.base_model.token_embeddings.weight, self.decoder["bias"])


class _Classifier(heads.Classifier, _WithHead):
    """The encoder, the head, dropout, and one linear layer."""

    def states(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        return self.base_model.hidden_states(input_ids, token_type_ids, layout)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (B, labels) or (T, labels) logits."""
        states = self.head(self.states(input_ids, token_type_ids, layout))
        return scores(self.classifier, self.dropped(states))


class ModernBertForSequenceClassification(_Classifier):
    """One row of logits for each sequence, from its [CLS] or the mean of its tokens."""

    architecture = "ModernBertForSequenceClassification"
    kind: ClassVar[Kind] = "sequence_classification"

    def states(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        config = self.config
        assert isinstance(config, ModernBertConfig)
        if config.classifier_pooling == "cls":
            return self.base_model.hidden_states(input_ids, token_type_ids, layout, layout.first_tokens)
        return layout.mean(super().states(input_ids, token_type_ids, layout))


class ModernBertForMultipleChoice(ModernBertForSequenceClassification):
    """One logit for a context with one of its choices."""

    architecture = "ModernBertForMultipleChoice"
    kind: ClassVar[Kind] = "multiple_choice"


class ModernBertForTokenClassification(_Classifier):
    """One row of logits for each token."""

    architecture = "ModernBertForTokenClassification"
    kind: ClassVar[Kind] = "token_classification"


class ModernBertForQuestionAnswering(_Classifier):
    """Two logits for each token: the answer begins, the answer ends there."""

    architecture = "ModernBertForQuestionAnswering"
    kind: ClassVar[Kind] = "question_answering"


def _flops(config: ModernBertConfig, lengths: Tensor, masked: int) -> int:
    width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    tokens, pairs = int(lengths.sum()), 0
    for index in range(layers):
        reach = config.positions(index).reach
        whole = lengths * lengths
        # Of a window, what it holds: all pairs less the two corners that lie beyond it.
        outside = 0 if reach is None else (lengths - 1 - reach).clamp_min(0)
        pairs += int((whole - outside * (outside + 1)).sum())
    attention = layers * 2 * tokens * 3 * width**2 + 4 * pairs * width
    rest = 2 * ((layers - 1) * tokens + masked) * (width**2 + 3 * width * inner)
    return attention + rest + 2 * masked * width * (width + config.vocab_size)


_NAMES = Names(
    modules={
        "attention_norm": ("attn_norm",),
        "attention.qkv": ("attn.Wqkv",),
        "attention.output": ("attn.Wo",),
        "output_norm": ("mlp_norm",),
        "intermediate": ("mlp.Wi",),
        "output": ("mlp.Wo",),
    },
    layer="layers.{}",
)


MODERNBERT = Architecture(
    config=ModernBertConfig,
    presets=PRESETS,
    encoder=ModernBertModel,
    pretraining=ModernBertForMaskedLM,
    heads=(
        ModernBertForSequenceClassification,
        ModernBertForTokenClassification,
        ModernBertForQuestionAnswering,
        ModernBertForMultipleChoice,
    ),
    redundant=("decoder.weight",),  # of the embeddings
    names=_NAMES,
    flops=_flops,
)
