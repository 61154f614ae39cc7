"""ALBERT (Lan et al. 2020) on sequences without padding: its sizes, its encoder, and the encoder with each head.

It has BERT's layers, but few different ones, each passed through many times, and embeddings narrower than the layers.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.config import within
from bertcore.model import heads
from bertcore.model.architecture import Architecture, sizes
from bertcore.model.bert import Activation, BertConfig, BertEmbeddings, BertLayer, encoder_flops
from bertcore.model.encoder import PooledEncoder
from bertcore.model.initialization import initialize
from bertcore.model.layers import ACTIVATIONS, LayerStack
from bertcore.model.names import Names
from bertcore.model.normalization import LayerNorm


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(BertConfig):
    """One ALBERT encoder; `num_hidden_layers` counts how often a layer is passed through."""

    model_type: ClassVar[str] = "albert"
    required: ClassVar[Mapping[str, Any]] = {
        "inner_group_num": 1,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    }
    defaults: ClassVar[Mapping[str, Any]] = {
        "vocab_size": 30_000,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16_384,
    }
    # [CLS] and [SEP] stand in the tokenizer; Hugging Face's default ids are those of another vocabulary.
    further: ClassVar[Mapping[str, Any]] = {"bos_token_id": None, "eos_token_id": None}
    remedy: ClassVar[str] = "another ALBERT encoder"

    embedding_size: int = 128
    """Width of the embeddings; a projection stands before the first layer."""
    num_hidden_groups: int = 1
    """Different layers; neighbours of the same group share all weights."""
    hidden_act: Activation = "gelu_new"
    """`gelu` is the erf form, `gelu_new` (= `gelu_pytorch_tanh`) the tanh form of the original code."""
    hidden_dropout_prob: float = 0.0
    """Share of activations dropped after the embeddings and after each block's output."""
    attention_probs_dropout_prob: float = 0.0
    """Share of attention weights dropped. Above zero it rules out the fused attention kernels."""
    classifier_dropout_prob: float = 0.1
    """Share of activations dropped before the last layer of a head."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least_one("embedding_size")
        self.probability("classifier_dropout_prob")
        within(
            self,
            "num_hidden_groups",
            f"between 1 and num_hidden_layers ({self.num_hidden_layers}); 1 shares all layers",
            least=1,
            most=self.num_hidden_layers,
        )

    def with_dropout(self, hidden: float, attention: float) -> Self:
        return dataclasses.replace(super().with_dropout(hidden, attention), classifier_dropout_prob=hidden)

    @property
    def head_dropout(self) -> float:
        return self.classifier_dropout_prob

    @property
    def order(self) -> list[int]:
        """The group of each layer, rounded as Hugging Face's class does."""
        of_one = self.num_hidden_layers / self.num_hidden_groups
        return [int(layer / of_one) for layer in range(self.num_hidden_layers)]


# BERT's two smallest sizes, and the published models (Lan et al. 2020, table 1).
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": sizes(2, 128, 2, embedding_size=128),
    "mini": sizes(4, 256, 4, embedding_size=128),
    "base": sizes(12, 768, 12, embedding_size=128),
    "large": sizes(24, 1024, 16, embedding_size=128),
    "xlarge": sizes(24, 2048, 16, embedding_size=128),
    "xxlarge": sizes(12, 4096, 64, embedding_size=128),
}


class AlbertModel(PooledEncoder):
    """The encoder, and its pooled [CLS]."""

    architecture = "AlbertModel"

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config, config.embedding_size)
        self.embeddings_project = nn.Linear(config.embedding_size, config.hidden_size)
        self.encoder = LayerStack([BertLayer(config) for _ in range(config.num_hidden_groups)], config.order)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        initialize(self, config)

    @property
    def below_layers(self) -> list[nn.Module]:
        return [self.embeddings, self.embeddings_project]

    def embedded(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        states: Tensor = self.embeddings_project(super().embedded(input_ids, token_type_ids, position_ids))
        return states

    def pool(self, first: Tensor) -> Tensor:
        return torch.tanh(self.pooler(first))


class _WithAlbert(heads.WithEncoder):
    prefix, encoder_class = "albert", AlbertModel


class AlbertTokenHead(nn.Module):
    """(M, H) hidden states at masked positions -> (M, V) logits; the decoder is the embedding matrix itself."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.LayerNorm = LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, masked: Tensor, embeddings: Tensor) -> Tensor:
        transformed = self.LayerNorm(self.activation(self.dense(masked)))
        return functional.linear(transformed, embeddings, self.bias)


class AlbertForPreTraining(heads.PairPreTraining, _WithAlbert):
    """The encoder with the heads of both pre-training objectives, masked tokens and the order of the segments: that it
    is theirs, and that they are swapped."""

    architecture, token_head = "AlbertForPreTraining", "predictions"
    kind = "order_pretraining"

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.predictions = AlbertTokenHead(config)
        self.sop_classifier = nn.ModuleDict({"classifier": nn.Linear(config.hidden_size, 2)})
        initialize(self.predictions, config)
        initialize(self.sop_classifier, config)

    def pair_logits(self, pooled: Tensor) -> Tensor:
        logits: Tensor = self.sop_classifier["classifier"](self.dropped(pooled))
        return logits


class AlbertForSequenceClassification(heads.SequenceClassification, _WithAlbert):
    """One row of logits for each sequence, from its pooled [CLS]."""

    architecture = "AlbertForSequenceClassification"


class AlbertForMultipleChoice(heads.MultipleChoice, _WithAlbert):
    architecture = "AlbertForMultipleChoice"


class AlbertForTokenClassification(heads.TokenClassification, _WithAlbert):
    architecture = "AlbertForTokenClassification"


class AlbertForQuestionAnswering(heads.QuestionAnswering, _WithAlbert):
    architecture = "AlbertForQuestionAnswering"


_NAMES = Names(
    modules={
        "attention.qkv": ("attention.query", "attention.key", "attention.value"),
        "attention.output": ("attention.dense",),
        "attention_norm": ("attention.LayerNorm",),
        "intermediate": ("ffn",),
        "output": ("ffn_output",),
        "output_norm": ("full_layer_layer_norm",),
    },
    layer="encoder.albert_layer_groups.{}.albert_layers.0",
    beside={"embeddings_project": "encoder.embedding_hidden_mapping_in"},
)


def _flops(config: AlbertConfig, lengths: Tensor, masked: int) -> int:
    width, embedding = config.hidden_size, config.embedding_size
    projection = 2 * int(lengths.sum()) * embedding * width
    head = 2 * masked * embedding * (width + config.vocab_size)
    return projection + encoder_flops(config, lengths, masked) + head


ALBERT = Architecture(
    config=AlbertConfig,
    presets=PRESETS,
    encoder=AlbertModel,
    pretraining=AlbertForPreTraining,
    heads=(
        AlbertForSequenceClassification,
        AlbertForTokenClassification,
        AlbertForQuestionAnswering,
        AlbertForMultipleChoice,
    ),
    also={"AlbertForMaskedLM": "masked_lm"},
    pair_head=("albert.pooler.", "sop_classifier."),
    optional=("pooler.",),  # Hugging Face's masked-LM, tagging and question-answering models are saved without it
    # Copies of tied parameters, and buffers that old versions saved.
    redundant=(
        "predictions.decoder.weight",
        "predictions.decoder.bias",
        "embeddings.position_ids",
        "embeddings.token_type_ids",
    ),
    names=_NAMES,
    flops=_flops,
)
