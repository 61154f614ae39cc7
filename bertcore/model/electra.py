"""ELECTRA (Clark et al. 2020) on sequences without padding: its sizes, its encoder, and the encoder with each head.

It has BERT's layers, on embeddings that may be narrower than they are. It is pre-trained as a discriminator, which
tells the tokens of a text from those that a generator, a smaller model with the same embeddings, put in their places.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.model import heads
from bertcore.model.architecture import Architecture, Discriminator, sizes
from bertcore.model.bert import BertConfig, BertEmbeddings, BertLayer, detection_flops, encoder_flops
from bertcore.model.encoder import Encoder, scores
from bertcore.model.initialization import initialize
from bertcore.model.layers import ACTIVATIONS, LayerStack
from bertcore.model.layout import Layout, by_rounded_rows
from bertcore.model.names import BERT as NAMES
from bertcore.model.normalization import LayerNorm


@dataclass(frozen=True, kw_only=True)
class ElectraConfig(BertConfig):
    """One ELECTRA encoder; `intermediate_size` is usually four times `hidden_size`."""

    model_type: ClassVar[str] = "electra"
    defaults: ClassVar[Mapping[str, Any]] = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
    remedy: ClassVar[str] = "an ELECTRA encoder"

    embedding_size: int = 128
    """Width of the embeddings; where it is not `hidden_size`, a projection stands before the first layer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least_one("embedding_size")

    def generator(self, width: float | None, layers: float | None) -> "ElectraConfig":
        """The generator of a discriminator of this shape, with these shares of its width, by default a quarter, and of
        its layers, by default all.

        Its heads have 64 dimensions or more, as in google-research/electra.
        """
        hidden_size = max(1, round((0.25 if width is None else width) * self.hidden_size))
        most = max(1, hidden_size // 64)
        return dataclasses.replace(
            self,
            hidden_size=hidden_size,
            num_hidden_layers=max(1, round((1.0 if layers is None else layers) * self.num_hidden_layers)),
            num_attention_heads=next(number for number in range(most, 0, -1) if hidden_size % number == 0),
            intermediate_size=max(1, round(self.intermediate_size * hidden_size / self.hidden_size)),
        )


# BERT's two smallest sizes, and the published models (Clark et al. 2020, table 6).
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": sizes(2, 128, 2, embedding_size=128),
    "mini": sizes(4, 256, 4, embedding_size=128),
    "small": sizes(12, 256, 4, embedding_size=128),
    "base": sizes(12, 768, 12, embedding_size=768),
    "large": sizes(24, 1024, 16, embedding_size=1024),
}


class ElectraModel(Encoder):
    """The encoder."""

    architecture = "ElectraModel"

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config, config.embedding_size)
        projected = config.embedding_size != config.hidden_size
        self.embeddings_project = nn.Linear(config.embedding_size, config.hidden_size) if projected else None
        self.encoder = LayerStack([BertLayer(config) for _ in range(config.num_hidden_layers)])
        initialize(self, config)

    @property
    def below_layers(self) -> list[nn.Module]:
        return [self.embeddings, *([] if self.embeddings_project is None else [self.embeddings_project])]

    def embedded(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        states = super().embedded(input_ids, token_type_ids, position_ids)
        return states if self.embeddings_project is None else self.embeddings_project(states)


class _WithElectra(heads.WithEncoder):
    prefix, encoder_class = "electra", ElectraModel


class ElectraDetectionHead(nn.Module):
    """(T, H) -> (T,) logits: that a token is a replaced one."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense_prediction = nn.Linear(config.hidden_size, 1)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor) -> Tensor:
        inner = by_rounded_rows(lambda rows: self.activation(self.dense(rows)), hidden)
        return scores(self.dense_prediction, inner).squeeze(-1)


class ElectraForPreTraining(_WithElectra):
    """The discriminator: the encoder, and a head that says of every token whether it is a replaced one."""

    architecture = "ElectraForPreTraining"
    kind = "replaced_tokens"

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        self.discriminator_predictions = ElectraDetectionHead(config)
        initialize(self.discriminator_predictions, config)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (T,) logits."""
        hidden = self.base_model.hidden_states(input_ids, token_type_ids, layout)
        logits: Tensor = self.discriminator_predictions(hidden)
        return logits


class GeneratorHead(nn.Module):
    """(M, H) hidden states at masked positions -> (M, E), as wide as the embeddings."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.LayerNorm = LayerNorm(config.embedding_size, eps=config.layer_norm_eps)

    def forward(self, masked: Tensor) -> Tensor:
        transformed: Tensor = self.LayerNorm(functional.gelu(self.dense(masked)))  # erf, whatever the layers have
        return transformed


class ElectraForMaskedLM(heads.MaskedLM, _WithElectra):
    """The generator: the encoder, and the head for masked tokens, whose matrix is that of the embeddings."""

    architecture = "ElectraForMaskedLM"

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        self.generator_predictions = GeneratorHead(config)
        initialize(self.generator_predictions, config)
        self.generator_lm_head = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(config.vocab_size))})

    def token_logits(self, states: Tensor) -> Tensor:
        table, bias = self.base_model.token_embeddings.weight, self.generator_lm_head["bias"]
        return functional.linear(self.generator_predictions(states), table, bias)


def _share_embeddings(discriminator: ElectraForPreTraining, generator: ElectraForMaskedLM) -> None:
    generator.base_model.embeddings = discriminator.base_model.embeddings


class ElectraForSequenceClassification(heads.TwoLayerClassification, _WithElectra):
    """One row of logits for each sequence, from its [CLS]."""

    architecture, activation = "ElectraForSequenceClassification", "gelu"


class _WithSummary(_WithElectra):
    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        self.sequence_summary = nn.ModuleDict({"summary": nn.Linear(config.hidden_size, config.hidden_size)})
        initialize(self.sequence_summary, config)

    def pooled(self, first: Tensor) -> Tensor:
        return functional.gelu(self.sequence_summary["summary"](first))


class ElectraForMultipleChoice(heads.MultipleChoice, _WithSummary):
    """One logit for a context with one of its choices, from its [CLS]: a layer, GELU, dropout, and the last layer."""

    architecture = "ElectraForMultipleChoice"


class ElectraForTokenClassification(heads.TokenClassification, _WithElectra):
    architecture = "ElectraForTokenClassification"


class ElectraForQuestionAnswering(heads.QuestionAnswering, _WithElectra):
    architecture = "ElectraForQuestionAnswering"


def _projection_flops(config: ElectraConfig, lengths: Tensor) -> int:
    if config.embedding_size == config.hidden_size:
        return 0
    return 2 * int(lengths.sum()) * config.embedding_size * config.hidden_size


def _flops(config: ElectraConfig, lengths: Tensor, masked: int) -> int:
    head = 2 * masked * config.embedding_size * (config.hidden_size + config.vocab_size)
    return _projection_flops(config, lengths) + encoder_flops(config, lengths, masked) + head


def _discriminator_flops(config: ElectraConfig, lengths: Tensor) -> int:
    return _projection_flops(config, lengths) + detection_flops(config, lengths)


ELECTRA = Architecture(
    config=ElectraConfig,
    presets=PRESETS,
    encoder=ElectraModel,
    pretraining=ElectraForMaskedLM,
    discriminator=Discriminator(
        build=ElectraForPreTraining,
        generator=ElectraConfig.generator,
        share=_share_embeddings,
        shared=("embedding_size", "vocab_size", "max_position_embeddings", "type_vocab_size", "layer_norm_eps"),
        flops=_discriminator_flops,
    ),
    heads=(
        ElectraForSequenceClassification,
        ElectraForTokenClassification,
        ElectraForQuestionAnswering,
        ElectraForMultipleChoice,
    ),
    # A copy of the tied matrix, and buffers that old versions saved.
    redundant=("generator_lm_head.weight", "embeddings.position_ids", "embeddings.token_type_ids"),
    names=NAMES,
    flops=_flops,
)
