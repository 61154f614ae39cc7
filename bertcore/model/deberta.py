"""DeBERTa, version 2 (He et al. 2021) and 3 (He et al. 2023), on sequences without padding: its sizes, its encoder, and
the encoder with each head.

BERT's layers with disentangled attention in place of positions and segments among the embeddings. Not here: what some
sizes have besides (a convolution above the first layer, embeddings of another width), and absolute positions in the
head for masked tokens, which Hugging Face's class has not either.
"""

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

from torch import Tensor, nn
from torch.nn import functional

from bertcore.config import within
from bertcore.model import bert, heads
from bertcore.model.architecture import Architecture, Discriminator, sizes
from bertcore.model.bert import Activation, BertLayer, BertLayerConfig, MaskedTokenHead
from bertcore.model.disentangled_attention import DisentangledSelfAttention, Distances
from bertcore.model.dropout import dropout
from bertcore.model.encoder import Encoder, scores
from bertcore.model.initialization import initialize
from bertcore.model.layers import ACTIVATIONS, LayerStack
from bertcore.model.layout import Layout, by_rounded_rows
from bertcore.model.names import BERT, Names
from bertcore.model.normalization import LayerNorm

# What Hugging Face's class takes where a key is absent that this implementation requires, or means otherwise.
_ABSENT = {
    "relative_attention": False,
    "pos_att_type": None,
    "share_att_key": False,
    "norm_rel_ebd": "none",
    "position_biased_input": True,
    "position_buckets": -1,
}


@dataclass(frozen=True, kw_only=True)
class DebertaConfig(BertLayerConfig):
    """One DeBERTa encoder; `intermediate_size` is usually four times `hidden_size`."""

    model_type: ClassVar[str] = "deberta-v2"
    required: ClassVar[Mapping[str, Any]] = {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "legacy": True,
        "tie_word_embeddings": True,
    }
    # Ours are those of the base model.
    defaults: ClassVar[Mapping[str, Any]] = {
        "vocab_size": 128_100,
        "hidden_size": 1536,
        "num_hidden_layers": 24,
        "num_attention_heads": 24,
        "intermediate_size": 6144,
    }
    remedy: ClassVar[str] = "a DeBERTa of version 2 or 3 without convolutions, such as deberta-v3-base"

    hidden_dropout_prob: float = 0.1
    """Share of activations dropped after the embeddings, of those of distances, and after each block's output."""
    attention_probs_dropout_prob: float = 0.1
    """Share of attention weights dropped."""
    position_buckets: int = 256
    """Rows of the table of distances on either side: half of them for one distance each, the others all up to
    `max_relative_positions`."""
    max_relative_positions: int = 512
    """The farthest distance that is told from nearer ones."""
    layer_norm_eps: float = 1e-7
    """Added to the variance in layer normalisation."""
    pooler_dropout: float = 0.0
    """Share dropped of [CLS] before the pooler of a classifier of texts."""
    pooler_hidden_act: Activation = "gelu"
    """What the pooler is activated with."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.probability("pooler_dropout")
        self.at_least_one("max_relative_positions")
        self.one_of("pooler_hidden_act", get_args(Activation))
        within(self, "position_buckets", "at least 2, such as 256", least=2)
        near, longest = self.position_buckets // 2, self.max_position_embeddings - 1
        if self.max_relative_positions - 1 <= near < longest:
            raise ValueError(
                f"max_relative_positions: found {self.max_relative_positions} with position_buckets "
                f"{self.position_buckets}, which tell the nearest {near} distances apart, expected at least {near + 2};"
                " raise it or lower position_buckets"
            )

    @classmethod
    def read(cls, raw: Mapping[str, Any], path: Path) -> dict[str, Any]:
        given = {**cls.defaults, **_ABSENT, **{key: value for key, value in raw.items() if value is not None}}
        kinds = given["pos_att_type"]
        given["pos_att_type"] = sorted(kinds.split("|") if isinstance(kinds, str) else kinds or [])
        width = given["hidden_size"]
        further = {
            "embedding_size": width,
            "attention_head_size": width // given["num_attention_heads"],
            "pooler_hidden_size": width,
            "conv_kernel_size": 0,
            "cls_dropout": given.get("hidden_dropout_prob", cls.hidden_dropout_prob),
        }
        if given.get("max_relative_positions", -1) < 1:
            given["max_relative_positions"] = given.get("max_position_embeddings", cls.max_position_embeddings)
        fields = super().read(given, path)
        cls.check_required(given, further, path)
        return fields

    @property
    def scores_distances(self) -> bool:
        return True

    def generator(self, width: float | None, layers: float | None) -> Self:
        """The generator of a discriminator of this shape, with this share of its layers, by default half of them;
        `ValueError` for another width than its own: the two have one table of the vocabulary."""
        if width not in (None, 1.0):
            raise ValueError(
                f"generator_width: found {width}, but the generator of a {self.model_type} shares the embeddings of "
                "the model, which are as wide as its layers, expected 1.0; make it smaller by generator_layers"
            )
        share = 0.5 if layers is None else layers
        return dataclasses.replace(self, num_hidden_layers=max(1, round(share * self.num_hidden_layers)))


# BERT's sizes, of which `base` and `large` are published ones, and of version 3 those that are none of BERT's.
PRESETS: dict[str, dict[str, Any]] = {
    **bert.PRESETS,
    "v3-xsmall": sizes(12, 384, 6),
    "v3-small": sizes(6, 768, 12),
}


class DebertaEmbeddings(nn.Module):
    """(T,) token ids -> (T, H), normalised; segments and positions are ignored."""

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout_prob = config.hidden_dropout_prob

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        return dropout(self.LayerNorm(self.word_embeddings(input_ids)), self.dropout_prob, self.training)


class DebertaLayer(BertLayer):
    """BERT's, with attention to content and to distance."""

    def __init__(self, config: DebertaConfig, distances: Distances) -> None:
        super().__init__(config)
        self.attention = DisentangledSelfAttention(
            config.hidden_size,
            config.num_attention_heads,
            config.attention_probs_dropout_prob,
            distances,
            config.hidden_dropout_prob,
        )


class DebertaModel(Encoder):
    """The encoder."""

    architecture = "DebertaV2Model"

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__(config)
        self.embeddings = DebertaEmbeddings(config)
        self.distances = Distances(
            config.hidden_size, config.position_buckets, config.max_relative_positions, config.layer_norm_eps
        )
        self.encoder = LayerStack([DebertaLayer(config, self.distances) for _ in range(config.num_hidden_layers)])
        initialize(self, config)

    @property
    def below_layers(self) -> list[nn.Module]:
        return [self.embeddings, self.distances]


class _WithDeberta(heads.WithEncoder):
    prefix, encoder_class = "deberta", DebertaModel


class DebertaForMaskedLM(heads.MaskedLM, _WithDeberta):
    """The encoder with the head for masked tokens."""

    architecture, token_head = "DebertaV2ForMaskedLM", "cls.predictions"

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__(config)
        self.cls = nn.ModuleDict({"predictions": MaskedTokenHead(config)})
        initialize(self.cls, config)


class DebertaDetectionHead(nn.Module):
    """(T, H) states of whole sequences -> (T,) logits: that a token is a replaced one, judged with the state of [CLS]
    added to its own. The published head, which no class of Hugging Face has."""

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__()
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        # By index_select, whose gradient is added in one order; that of an index is added by several threads at once.
        with_first = hidden.index_select(0, layout.first_tokens).index_select(0, layout.sequences) + hidden
        inner = by_rounded_rows(lambda rows: self.activation(self.dense(self.LayerNorm(rows))), with_first)
        return scores(self.classifier, inner).squeeze(-1)


class DebertaForPreTraining(_WithDeberta):
    """Version 3's discriminator (He et al. 2023): the encoder, and a head that says of every token whether it is a
    replaced one."""

    architecture = "DebertaV2ForPreTraining"
    kind = "replaced_tokens"

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__(config)
        self.mask_predictions = DebertaDetectionHead(config)
        initialize(self.mask_predictions, config)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (T,) logits."""
        hidden = self.base_model.hidden_states(input_ids, token_type_ids, layout)
        logits: Tensor = self.mask_predictions(hidden, layout)
        return logits

    @property
    def published(self) -> "DebertaForPreTraining":
        table = self.base_model.token_embeddings
        if not isinstance(table, Difference):
            return self
        return copy.deepcopy(self, {id(table): nn.Embedding.from_pretrained(table.whole, freeze=False)})


class Difference(nn.Embedding):
    """A table of embeddings that is the sum of another one, to which no gradient goes from here, and its own weights.

    So the losses of two models with one table do not pull it to and fro (He et al. 2023, section 3.3:
    gradient-disentangled embedding sharing). The other table is no part of this module: who trains it keeps it.
    """

    def __init__(self, whole: Tensor, other: nn.Embedding) -> None:
        super().__init__(whole.shape[0], whole.shape[1], _weight=whole - other.weight.detach())
        self._other = [other]

    @property
    def whole(self) -> Tensor:
        """(V, H), without a gradient."""
        return self._other[0].weight.detach() + self.weight.detach()

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self._other[0].weight.detach()) + super().forward(ids)


def _share_embeddings(discriminator: DebertaForPreTraining, generator: DebertaForMaskedLM) -> None:
    table = discriminator.base_model.token_embeddings
    whole = table.whole if isinstance(table, Difference) else table.weight.detach()
    shared = Difference(whole, generator.base_model.token_embeddings)
    discriminator.base_model.embeddings.word_embeddings = shared


class ContextPooler(nn.Module):
    """(B, H) states of the [CLS] tokens -> (B, H) representations of the whole sequences."""

    def __init__(self, config: DebertaConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation, self.dropout_prob = ACTIVATIONS[config.pooler_hidden_act], config.pooler_dropout

    def forward(self, first: Tensor) -> Tensor:
        return self.activation(self.dense(dropout(first, self.dropout_prob, self.training)))


class _WithPooler(_WithDeberta):
    def __init__(self, config: DebertaConfig) -> None:
        super().__init__(config)
        self.pooler = ContextPooler(config)
        initialize(self.pooler, config)

    def pooled(self, first: Tensor) -> Tensor:
        pooled: Tensor = self.pooler(first)
        return pooled


class DebertaForSequenceClassification(heads.SequenceClassification, _WithPooler):
    architecture = "DebertaV2ForSequenceClassification"


class DebertaForMultipleChoice(heads.MultipleChoice, _WithPooler):
    architecture = "DebertaV2ForMultipleChoice"


class DebertaForTokenClassification(heads.TokenClassification, _WithDeberta):
    architecture = "DebertaV2ForTokenClassification"


class DebertaForQuestionAnswering(heads.QuestionAnswering, _WithDeberta):
    architecture = "DebertaV2ForQuestionAnswering"


_QKV = ("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj")
_NAMES = Names(
    modules={**BERT.modules, "attention.qkv": _QKV},
    beside={"distances.rel_embeddings": "encoder.rel_embeddings", "distances.LayerNorm": "encoder.LayerNorm"},
)


def _distance_flops(config: DebertaConfig, lengths: Tensor) -> int:
    # Keys and queries of distances are made once for all sequences of a batch: a hundredth of its products, left out.
    return 8 * config.num_hidden_layers * config.hidden_size * int((lengths * lengths).sum())


def _flops(config: DebertaConfig, lengths: Tensor, masked: int) -> int:
    return _distance_flops(config, lengths) + bert.masked_lm_flops(config, lengths, masked)


def _discriminator_flops(config: DebertaConfig, lengths: Tensor) -> int:
    return _distance_flops(config, lengths) + bert.detection_flops(config, lengths)


DEBERTA = Architecture(
    config=DebertaConfig,
    presets=PRESETS,
    encoder=DebertaModel,
    pretraining=DebertaForMaskedLM,
    discriminator=Discriminator(
        build=DebertaForPreTraining,
        generator=DebertaConfig.generator,
        share=_share_embeddings,
        shared=("hidden_size", "vocab_size"),
        flops=_discriminator_flops,
    ),
    heads=(
        DebertaForSequenceClassification,
        DebertaForTokenClassification,
        DebertaForQuestionAnswering,
        DebertaForMultipleChoice,
    ),
    # Copies of tied parameters, and buffers that old versions saved.
    redundant=("cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "embeddings.position_ids"),
    names=_NAMES,
    flops=_flops,
)
