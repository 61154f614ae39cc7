"""BERT (Devlin et al. 2018) on sequences without padding: its sizes, its encoder, and the encoder with each head.

Parameters outside of the encoder layers have Hugging Face's names; `names` maps the others.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.model import heads
from bertcore.model.architecture import Architecture, sizes
from bertcore.model.attention import SelfAttention, selected
from bertcore.model.dropout import dropout
from bertcore.model.encoder import PooledEncoder
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.initialization import initialize
from bertcore.model.layers import ACTIVATIONS, EncoderLayer, LayerStack
from bertcore.model.layout import Layout
from bertcore.model.names import BERT as NAMES
from bertcore.model.normalization import LayerNorm

Activation = Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"]


@dataclass(frozen=True, kw_only=True)
class BertLayerConfig(EncoderConfig):
    """What BERT's layers and its head for masked tokens are made of, which other architectures have, too."""

    hidden_act: Activation = "gelu"
    """`gelu` is the erf form, `gelu_new` (= `gelu_pytorch_tanh`) the tanh form of the original BERT code."""
    hidden_dropout_prob: float = 0.1
    """Share of activations dropped after the embeddings and after each block's output."""
    attention_probs_dropout_prob: float = 0.1
    """Share of attention weights dropped. Above zero it rules out the fused attention kernels."""
    layer_norm_eps: float = 1e-12
    """Added to the variance in layer normalisation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.probability("hidden_dropout_prob")
        self.probability("attention_probs_dropout_prob")
        self.positive("layer_norm_eps")
        self.one_of("hidden_act", get_args(Activation))

    @property
    def dropouts(self) -> tuple[float, float]:
        return self.hidden_dropout_prob, self.attention_probs_dropout_prob

    def with_dropout(self, hidden: float, attention: float) -> Self:
        return dataclasses.replace(self, hidden_dropout_prob=hidden, attention_probs_dropout_prob=attention)


@dataclass(frozen=True, kw_only=True)
class BertConfig(BertLayerConfig):
    """One BERT encoder; `intermediate_size` is usually four times `hidden_size`."""

    model_type: ClassVar[str] = "bert"
    required: ClassVar[Mapping[str, Any]] = {
        "is_decoder": False,
        "add_cross_attention": False,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    }
    remedy: ClassVar[str] = "a BERT encoder"

    type_vocab_size: int = 2
    """Segments (sentence A, sentence B)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least_one("type_vocab_size")

    @property
    def segments(self) -> int:
        return self.type_vocab_size


# Sizes of the published models (Devlin et al. 2018 section 3; Turc et al. 2019 for the small ones).
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": sizes(2, 128, 2),
    "mini": sizes(4, 256, 4),
    "small": sizes(4, 512, 8),
    "medium": sizes(8, 512, 8),
    "base": sizes(12, 768, 12),
    "large": sizes(24, 1024, 16),
}


class BertEmbeddings(nn.Module):
    """(T,) token, segment and position ids -> (T, width): three embeddings, added and normalised (figure 2)."""

    def __init__(self, config: BertConfig, width: int | None = None) -> None:
        """`width` None: the `hidden_size`."""
        super().__init__()
        width = width or config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout_prob = config.hidden_dropout_prob

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        embedded = (
            self.word_embeddings(input_ids)
            + self.token_type_embeddings(token_type_ids)
            + self.position_embeddings(position_ids)
        )
        return dropout(self.LayerNorm(embedded), self.dropout_prob, self.training)


class BertLayer(EncoderLayer):
    """Each block's output is added to its input and normalised, as in the original."""

    fused: ClassVar[Mapping[str, int]] = {"attention.qkv.weight": 3}

    def __init__(self, config: BertLayerConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.attention = SelfAttention(width, config.num_attention_heads, config.attention_probs_dropout_prob)
        self.attention_norm = LayerNorm(width, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(width, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, width)
        self.output_norm = LayerNorm(width, eps=config.layer_norm_eps)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.attended_dropout_prob = self.dropout_prob = config.hidden_dropout_prob

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        attended = self.attention(hidden, layout, rows)
        hidden = self.attention_norm(self._added(selected(hidden, rows), attended, self.attended_dropout_prob))
        transformed = self.output(self.activation(self.intermediate(hidden)))
        return self.output_norm(self._added(hidden, transformed, self.dropout_prob))

    def _added(self, hidden: Tensor, values: Tensor, dropout_prob: float) -> Tensor:
        # In the type of `hidden`, float32 under autocast: sums of mixed types are slow on the CPU.
        return hidden + dropout(values, dropout_prob, self.training).to(hidden.dtype)


class BertModel(PooledEncoder):
    """The encoder, and its pooled [CLS]."""

    architecture = "BertModel"
    embedding_class: ClassVar[type[BertEmbeddings]] = BertEmbeddings

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.embeddings = self.embedding_class(config)
        self.encoder = LayerStack([BertLayer(config) for _ in range(config.num_hidden_layers)])
        self.pooler = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.hidden_size)})
        initialize(self, config)

    def pool(self, first: Tensor) -> Tensor:
        return torch.tanh(self.pooler["dense"](first))


class MaskedTokenHead(nn.Module):
    """(M, H) hidden states at masked positions -> (M, V) logits; the decoder is the embedding matrix itself."""

    def __init__(self, config: BertLayerConfig) -> None:
        super().__init__()
        self.transform = nn.ModuleDict(
            {
                "dense": nn.Linear(config.hidden_size, config.hidden_size),
                "LayerNorm": LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
            }
        )
        self.activation = ACTIVATIONS[config.hidden_act]
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, masked: Tensor, embeddings: Tensor) -> Tensor:
        transformed = self.transform["LayerNorm"](self.activation(self.transform["dense"](masked)))
        return functional.linear(transformed, embeddings, self.bias)


class _WithBert(heads.WithEncoder):
    prefix, encoder_class = "bert", BertModel


class BertForPreTraining(heads.PairPreTraining, _WithBert):
    """The encoder with the heads of both pre-training objectives, masked tokens and the next sentence."""

    architecture, token_head = "BertForPreTraining", "cls.predictions"
    kind = "pair_pretraining"

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.cls = nn.ModuleDict(
            {"predictions": MaskedTokenHead(config), "seq_relationship": nn.Linear(config.hidden_size, 2)}
        )
        initialize(self.cls, config)

    def pair_logits(self, pooled: Tensor) -> Tensor:
        logits: Tensor = self.cls["seq_relationship"](pooled)
        return logits


class BertForSequenceClassification(heads.SequenceClassification, _WithBert):
    """The encoder, dropout, and one linear layer on the pooled [CLS] (figure 4 a and b)."""

    architecture = "BertForSequenceClassification"


class BertForMultipleChoice(heads.MultipleChoice, _WithBert):
    architecture = "BertForMultipleChoice"


class BertForTokenClassification(heads.TokenClassification, _WithBert):
    architecture = "BertForTokenClassification"


class BertForQuestionAnswering(heads.QuestionAnswering, _WithBert):
    architecture = "BertForQuestionAnswering"


def encoder_flops(config: EncoderConfig, lengths: Tensor, read: int) -> int:
    """Of one forward pass over sequences of `lengths` (B,) through all layers, the last one for `read` tokens only."""
    width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    tokens, squared = int(lengths.sum()), int((lengths * lengths).sum())
    attention = layers * (2 * tokens * 3 * width**2 + 4 * squared * width)
    return attention + 2 * ((layers - 1) * tokens + read) * (width**2 + 2 * width * inner)


def prediction_flops(config: EncoderConfig, masked: int) -> int:
    """Of the head for `masked` tokens."""
    return 2 * masked * config.hidden_size * (config.hidden_size + config.vocab_size)


def masked_lm_flops(config: EncoderConfig, lengths: Tensor, masked: int) -> int:
    """Of the encoder and the head for `masked` tokens alone: see `Architecture.flops`."""
    return encoder_flops(config, lengths, masked) + prediction_flops(config, masked)


def detection_flops(config: EncoderConfig, lengths: Tensor) -> int:
    """Of the encoder and a head of two layers that looks at every token: see `Discriminator.flops`."""
    tokens, width = int(lengths.sum()), config.hidden_size
    return encoder_flops(config, lengths, tokens) + 2 * tokens * (width**2 + width)


BERT = Architecture(
    config=BertConfig,
    presets=PRESETS,
    encoder=BertModel,
    pretraining=BertForPreTraining,
    heads=(
        BertForSequenceClassification,
        BertForTokenClassification,
        BertForQuestionAnswering,
        BertForMultipleChoice,
    ),
    also={"BertForMaskedLM": "masked_lm"},
    pair_head=("bert.pooler.", "cls.seq_relationship."),
    optional=("pooler.",),  # Hugging Face's masked-LM, tagging and question-answering models are saved without it
    # Copies of tied parameters, and buffers that old versions saved.
    redundant=("cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "embeddings.position_ids"),
    names=NAMES,
    flops=masked_lm_flops,
)
