"""ALBERT (Lan et al. 2020) on sequences without padding: its sizes, its encoder, and the encoder with each head.

It has BERT's layers, but few different ones, each passed through many times, and embeddings narrower than the layers.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.config import within
from bertcore.model import bert_names
from bertcore.model.architecture import Architecture, Encoder, read_fields, saved_fields
from bertcore.model.bert import Activation, BertConfig, BertEmbeddings, BertLayer, encoder_flops
from bertcore.model.heads import Dropping, QuestionAnswering, SequenceClassification, TokenClassification
from bertcore.model.initialization import initialize
from bertcore.model.layers import ACTIVATIONS, LayerStack
from bertcore.model.layout import Layout
from bertcore.model.normalization import LayerNorm


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(BertConfig):
    """One ALBERT encoder; `num_hidden_layers` counts how often a layer is passed through."""

    model_type: ClassVar[str] = "albert"

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
    def order(self) -> list[int]:
        """The group of each layer, rounded as Hugging Face's class does."""
        of_one = self.num_hidden_layers / self.num_hidden_groups
        return [int(layer / of_one) for layer in range(self.num_hidden_layers)]


def _preset(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "embedding_size": 128,
    }


# BERT's two smallest sizes, and the published models (Lan et al. 2020, table 1).
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _preset(2, 128, 2),
    "mini": _preset(4, 256, 4),
    "base": _preset(12, 768, 12),
    "large": _preset(24, 1024, 16),
    "xlarge": _preset(24, 2048, 16),
    "xxlarge": _preset(12, 4096, 64),
}


class AlbertModel(Encoder):
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
        """(B, H) states of the [CLS] tokens -> (B, H) representations of the whole sequences."""
        return torch.tanh(self.pooler(first))

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """As `hidden_states`, and the (B, H) pooled ones."""
        hidden = self.hidden_states(input_ids, token_type_ids, layout)
        return hidden, self.pool(hidden.index_select(0, layout.first_tokens))


class _WithPooler(Dropping):
    prefix = "albert"

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.albert = AlbertModel(config)
        self.dropout_prob = config.classifier_dropout_prob


class _WithEncoder(_WithPooler):
    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        del self.albert.pooler  # Hugging Face's classes have none, and it would learn nothing


class MaskedTokenHead(nn.Module):
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


class AlbertForPreTraining(_WithPooler):
    """The encoder with the heads of both pre-training objectives."""

    architecture = "AlbertForPreTraining"

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config)
        self.predictions = MaskedTokenHead(config)
        self.sop_classifier = nn.ModuleDict({"classifier": nn.Linear(config.hidden_size, 2)})
        initialize(self.predictions, config)
        initialize(self.sop_classifier, config)

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout, masked_positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(M,) flat positions -> (M, V) logits there, and (B, 2) logits that the segments are in their order, and
        that they are swapped."""
        rows = torch.cat([layout.first_tokens, masked_positions])
        hidden = self.albert.hidden_states(input_ids, token_type_ids, layout, rows)
        first, masked = hidden.split([layout.batch_size, len(masked_positions)])
        return self.token_logits(masked), self.sop_classifier["classifier"](self.dropped(self.albert.pool(first)))

    def token_logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.predictions(states, self.albert.token_embeddings.weight)
        return logits


class AlbertForSequenceClassification(SequenceClassification, _WithPooler):
    """One row of logits for each sequence, from its pooled [CLS]."""

    architecture = "AlbertForSequenceClassification"

    def pooled(self, first: Tensor) -> Tensor:
        return self.albert.pool(first)


class AlbertForMultipleChoice(AlbertForSequenceClassification):
    """One logit for a context with one of its choices."""

    architecture = "AlbertForMultipleChoice"


class AlbertForTokenClassification(TokenClassification, _WithEncoder):
    architecture = "AlbertForTokenClassification"


class AlbertForQuestionAnswering(QuestionAnswering, _WithEncoder):
    architecture = "AlbertForQuestionAnswering"


# A module in Hugging Face's ALBERT -> the one that does the same in Hugging Face's BERT, or here.
_BERTS = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.dense": "attention.output.dense",
    "attention.LayerNorm": "attention.output.LayerNorm",
    "ffn": "intermediate.dense",
    "ffn_output": "output.dense",
    "full_layer_layer_norm": "output.LayerNorm",
}
_OWN = {theirs: own for own, theirs in _BERTS.items()}
_LAYER = re.compile(r"((?:.*\.)?encoder\.)layer\.(\d+)\.(.+)\.(weight|bias)")
_OWN_LAYER = re.compile(r"((?:.*\.)?encoder\.)albert_layer_groups\.(\d+)\.albert_layers\.0\.(.+)\.(weight|bias)")
_PROJECTION, _OWN_PROJECTION = "embeddings_project.", "encoder.embedding_hidden_mapping_in."


def _to_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {_own_name(name): tensor for name, tensor in bert_names.to_huggingface(state).items()}


def _from_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return bert_names.from_huggingface({_berts_name(name): tensor for name, tensor in state.items()})


def _own_name(name: str) -> str:
    form = "{}albert_layer_groups.{}.albert_layers.0.{}.{}"
    return bert_names.renamed(name, _LAYER, form, _OWN) or name.replace(_PROJECTION, _OWN_PROJECTION)


def _berts_name(name: str) -> str:
    found = bert_names.renamed(name, _OWN_LAYER, "{}layer.{}.{}.{}", _BERTS)
    return found or name.replace(_OWN_PROJECTION, _PROJECTION)


# What this implementation takes for granted: key of config.json -> (the value it must have, also when absent).
_REQUIRED = {
    "model_type": "albert",
    "inner_group_num": 1,
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}
# Where Hugging Face's default is another one than ours.
_DEFAULTS = {"vocab_size": 30_000, "hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16_384}


def _read(raw: Mapping[str, Any], path: Path) -> dict[str, Any]:
    return _DEFAULTS | read_fields(AlbertConfig, raw, path, _REQUIRED, "another ALBERT encoder")


def _write(config: AlbertConfig) -> dict[str, Any]:
    # [CLS] and [SEP] stand in the tokenizer; Hugging Face's default ids are those of another vocabulary.
    return saved_fields(config) | _REQUIRED | {"bos_token_id": None, "eos_token_id": None}


def _flops(config: AlbertConfig, lengths: Tensor, masked: int) -> int:
    width, embedding, sequences = config.hidden_size, config.embedding_size, len(lengths)
    projection = 2 * int(lengths.sum()) * embedding * width
    pooler = 2 * sequences * width**2
    head = 2 * masked * embedding * (width + config.vocab_size)
    return projection + encoder_flops(config, lengths, sequences + masked) + pooler + head


ALBERT = Architecture(
    config=AlbertConfig,
    prefix="albert",
    presets=PRESETS,
    encoder=AlbertModel,
    pretraining=AlbertForPreTraining,
    heads={
        "sequence_classification": AlbertForSequenceClassification,
        "token_classification": AlbertForTokenClassification,
        "question_answering": AlbertForQuestionAnswering,
        "multiple_choice": AlbertForMultipleChoice,
    },
    kinds={
        "AlbertModel": "pooled_encoder",
        "AlbertForPreTraining": "order_pretraining",
        "AlbertForMaskedLM": "masked_lm",
        "AlbertForSequenceClassification": "sequence_classification",
        "AlbertForTokenClassification": "token_classification",
        "AlbertForQuestionAnswering": "question_answering",
        "AlbertForMultipleChoice": "multiple_choice",
    },
    pair_head=("albert.pooler.", "sop_classifier."),
    optional=("pooler.",),  # Hugging Face's masked-LM, tagging and question-answering models are saved without it
    # Copies of tied parameters, and buffers that old versions saved.
    redundant=(
        "predictions.decoder.weight",
        "predictions.decoder.bias",
        "embeddings.position_ids",
        "embeddings.token_type_ids",
    ),
    to_huggingface=_to_huggingface,
    from_huggingface=_from_huggingface,
    read=_read,
    write=_write,
    flops=_flops,
)
