"""DistilBERT (Sanh et al. 2019) on sequences without padding: BERT with fewer layers, no segments and no pooler.

Its layers and its head for masked tokens are BERT's own; only their names in Hugging Face's files are others.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

from torch import Tensor, nn
from torch.nn import functional

from bertcore.model import bert, heads
from bertcore.model.architecture import Architecture
from bertcore.model.bert import Activation, BertLayer, BertLayerConfig, MaskedTokenHead
from bertcore.model.dropout import dropout
from bertcore.model.encoder import Encoder, scores
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.initialization import initialize
from bertcore.model.layers import LayerStack
from bertcore.model.layout import Layout
from bertcore.model.names import Names
from bertcore.model.normalization import LayerNorm

_NORM_EPS = 1e-12
"""Added to the variance in layer normalisation; Hugging Face's config has no key for it."""


@dataclass(frozen=True, kw_only=True)
class DistilBertConfig(EncoderConfig):
    """One DistilBERT encoder; in config.json the sizes have the names `dim`, `n_layers`, `n_heads` and `hidden_dim`."""

    model_type: ClassVar[str] = "distilbert"
    keys: ClassVar[Mapping[str, str]] = {
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
    }
    required: ClassVar[Mapping[str, Any]] = {"tie_word_embeddings": True}
    # Sinusoids are how positions may begin; what they have become stands in the weights.
    further: ClassVar[Mapping[str, Any]] = {"sinusoidal_pos_embds": False}
    remedy: ClassVar[str] = "a DistilBERT encoder"

    num_hidden_layers: int = 6
    """Encoder layers."""
    activation: Activation = "gelu"
    """`gelu` is the erf form, `gelu_new` (= `gelu_pytorch_tanh`) the tanh form of the original BERT code."""
    dropout: float = 0.1
    """Share of activations dropped after the embeddings and after each feed-forward block."""
    attention_dropout: float = 0.1
    """Share of attention weights dropped. Above zero it rules out the fused attention kernels."""
    seq_classif_dropout: float = 0.2
    """Share dropped before the last layer of a classifier of texts."""
    qa_dropout: float = 0.1
    """Share dropped before the last layer of question answering."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("dropout", "attention_dropout", "seq_classif_dropout", "qa_dropout"):
            self.probability(name)
        self.one_of("activation", get_args(Activation))

    @property
    def dropouts(self) -> tuple[float, float]:
        return self.dropout, self.attention_dropout

    def with_dropout(self, hidden: float, attention: float) -> Self:
        return dataclasses.replace(
            self, dropout=hidden, attention_dropout=attention, seq_classif_dropout=hidden, qa_dropout=hidden
        )

    @property
    def bert(self) -> BertLayerConfig:
        """BERT's layers and head, which these are."""
        shared = {field.name: getattr(self, field.name) for field in dataclasses.fields(EncoderConfig)}
        return BertLayerConfig(
            **shared,
            hidden_act=self.activation,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.attention_dropout,
            layer_norm_eps=_NORM_EPS,
        )


# Of each of BERT's sizes half of the layers; `base` is the published model.
PRESETS: dict[str, dict[str, Any]] = {
    name: {**sizes, "num_hidden_layers": sizes["num_hidden_layers"] // 2} for name, sizes in bert.PRESETS.items()
}


class DistilBertEmbeddings(nn.Module):
    """(T,) token and position ids -> (T, H): two embeddings, added and normalised; segments are ignored."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, eps=_NORM_EPS)
        self.dropout_prob = config.dropout

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        embedded = self.word_embeddings(input_ids) + self.position_embeddings(position_ids)
        return dropout(self.LayerNorm(embedded), self.dropout_prob, self.training)


class DistilBertLayer(BertLayer):
    """BERT's, but of a layer's two sums only the second one has dropout, that of the feed-forward network."""

    def __init__(self, config: BertLayerConfig) -> None:
        super().__init__(config)
        self.attended_dropout_prob = 0.0


class DistilBertModel(Encoder):
    """The encoder."""

    architecture = "DistilBertModel"

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.embeddings = DistilBertEmbeddings(config)
        self.encoder = LayerStack([DistilBertLayer(config.bert) for _ in range(config.num_hidden_layers)])
        initialize(self, config)


class _WithDistilBert(heads.WithEncoder):
    prefix, encoder_class = "distilbert", DistilBertModel


class DistilBertForMaskedLM(heads.MaskedLM, _WithDistilBert):
    """The encoder with the head for masked tokens."""

    architecture, token_head = "DistilBertForMaskedLM", "predictions"

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.predictions = MaskedTokenHead(config.bert)
        initialize(self.predictions, config)


class _WithPooler(_WithDistilBert):
    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.pre_classifier = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout_prob = config.seq_classif_dropout
        initialize(self.pre_classifier, config)

    def pooled(self, first: Tensor) -> Tensor:
        return functional.relu(self.pre_classifier(first))


class DistilBertForSequenceClassification(heads.SequenceClassification, _WithPooler):
    """The encoder, a rectified layer on [CLS], dropout, and one linear layer."""

    architecture = "DistilBertForSequenceClassification"


class DistilBertForMultipleChoice(heads.MultipleChoice, _WithPooler):
    architecture = "DistilBertForMultipleChoice"


class DistilBertForTokenClassification(heads.TokenClassification, _WithDistilBert):
    architecture = "DistilBertForTokenClassification"


class DistilBertForQuestionAnswering(heads.QuestionAnswering, _WithDistilBert):
    """As the others', with dropout."""

    architecture = "DistilBertForQuestionAnswering"

    def __init__(self, config: DistilBertConfig, num_labels: int = 2) -> None:
        super().__init__(config, num_labels)
        self.dropout_prob = config.qa_dropout

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (T, 2) logits of start and end."""
        return scores(self.qa_outputs, self.dropped(self.base_model.hidden_states(input_ids, token_type_ids, layout)))


_NAMES = Names(
    modules={
        "attention.qkv": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        "attention.output": ("attention.out_lin",),
        "attention_norm": ("sa_layer_norm",),
        "intermediate": ("ffn.lin1",),
        "output": ("ffn.lin2",),
        "output_norm": ("output_layer_norm",),
    },
    layer="transformer.layer.{}",
    beside={
        "predictions.transform.dense": "vocab_transform",
        "predictions.transform.LayerNorm": "vocab_layer_norm",
        "predictions": "vocab_projector",
    },
)


DISTILBERT = Architecture(
    config=DistilBertConfig,
    presets=PRESETS,
    encoder=DistilBertModel,
    pretraining=DistilBertForMaskedLM,
    heads=(
        DistilBertForSequenceClassification,
        DistilBertForTokenClassification,
        DistilBertForQuestionAnswering,
        DistilBertForMultipleChoice,
    ),
    # Copies of tied parameters, and buffers that old versions saved.
    redundant=("predictions.weight", "embeddings.position_ids"),
    names=_NAMES,
    flops=bert.masked_lm_flops,
)
