"""DistilBERT (Sanh et al. 2019) on sequences without padding: BERT with fewer layers, no segments and no pooler.

Its layers and its head for masked tokens are BERT's own; only their names in Hugging Face's files are others.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

from torch import Tensor, nn
from torch.nn import functional

from bertcore.model import bert, bert_names
from bertcore.model.architecture import Architecture, Encoder, EncoderConfig, EncoderModule, read_fields, scores
from bertcore.model.bert import Activation, BertConfig, BertLayer, MaskedTokenHead
from bertcore.model.dropout import dropout
from bertcore.model.heads import Dropping, MaskedLM, QuestionAnswering, SequenceClassification, TokenClassification
from bertcore.model.initialization import initialize
from bertcore.model.layers import LayerStack
from bertcore.model.layout import Layout
from bertcore.model.normalization import LayerNorm

_NORM_EPS = 1e-12
"""Added to the variance in layer normalisation; Hugging Face's config has no key for it."""


@dataclass(frozen=True, kw_only=True)
class DistilBertConfig(EncoderConfig):
    """One DistilBERT encoder; in config.json the sizes have the names `dim`, `n_layers`, `n_heads` and `hidden_dim`."""

    model_type: ClassVar[str] = "distilbert"

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
    def bert(self) -> BertConfig:
        """The BERT whose layers and head these are."""
        shared = {field.name: getattr(self, field.name) for field in dataclasses.fields(EncoderConfig)}
        return BertConfig(
            **shared,
            hidden_act=self.activation,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.attention_dropout,
            layer_norm_eps=_NORM_EPS,
        )


# Of each of BERT's sizes half of the layers; `base` is the published model.
PRESETS: dict[str, dict[str, int]] = {
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

    def __init__(self, config: BertConfig) -> None:
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


class _WithEncoder(EncoderModule):
    prefix = "distilbert"

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.distilbert = DistilBertModel(config)
        self.dropout_prob = config.dropout


class DistilBertForMaskedLM(MaskedLM, _WithEncoder):
    """The encoder with the head for masked tokens."""

    architecture = "DistilBertForMaskedLM"

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.predictions = MaskedTokenHead(config.bert)
        initialize(self.predictions, config)

    def token_logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.predictions(states, self.distilbert.token_embeddings.weight)
        return logits


class _WithPooler(_WithEncoder):
    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.pre_classifier = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout_prob = config.seq_classif_dropout
        initialize(self.pre_classifier, config)


class DistilBertForSequenceClassification(SequenceClassification, _WithPooler):
    """The encoder, a rectified layer on [CLS], dropout, and one linear layer."""

    architecture = "DistilBertForSequenceClassification"

    def pooled(self, first: Tensor) -> Tensor:
        return functional.relu(self.pre_classifier(first))


class DistilBertForMultipleChoice(DistilBertForSequenceClassification):
    """One logit for a context with one of its choices."""

    architecture = "DistilBertForMultipleChoice"


class DistilBertForTokenClassification(TokenClassification, _WithEncoder):
    architecture = "DistilBertForTokenClassification"


class DistilBertForQuestionAnswering(Dropping, QuestionAnswering, _WithEncoder):
    """As the others', with dropout."""

    architecture = "DistilBertForQuestionAnswering"

    def __init__(self, config: DistilBertConfig, num_labels: int = 2) -> None:
        super().__init__(config, num_labels)
        self.dropout_prob = config.qa_dropout

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (T, 2) logits of start and end."""
        return scores(self.qa_outputs, self.dropped(self.distilbert.hidden_states(input_ids, token_type_ids, layout)))


# A module in Hugging Face's DistilBERT -> the one that does the same in Hugging Face's BERT, or here.
_BERTS = {
    "attention.q_lin": "attention.self.query",
    "attention.k_lin": "attention.self.key",
    "attention.v_lin": "attention.self.value",
    "attention.out_lin": "attention.output.dense",
    "sa_layer_norm": "attention.output.LayerNorm",
    "ffn.lin1": "intermediate.dense",
    "ffn.lin2": "output.dense",
    "output_layer_norm": "output.LayerNorm",
    "vocab_transform": "predictions.transform.dense",
    "vocab_layer_norm": "predictions.transform.LayerNorm",
    "vocab_projector": "predictions",
}
_OWN = {theirs: own for own, theirs in _BERTS.items()}
_THEIRS = re.compile(r"(.*\.|)transformer\.layer\.(\d+)\.(.+)\.(weight|bias)")
_OURS = re.compile(r"(.*\.|)encoder\.layer\.(\d+)\.(.+)\.(weight|bias)")


def _renamed(name: str, layer: re.Pattern[str], stack: str, modules: Mapping[str, str]) -> str:
    if found := bert_names.renamed(name, layer, f"{{}}{stack}.layer.{{}}.{{}}.{{}}", modules):
        return found
    module, _, kind = name.rpartition(".")
    return f"{modules.get(module, module)}.{kind}" if module else name


def _to_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    theirs = bert_names.to_huggingface(state)
    return {_renamed(name, _OURS, "transformer", _OWN): tensor for name, tensor in theirs.items()}


def _from_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return bert_names.from_huggingface(
        {_renamed(name, _THEIRS, "encoder", _BERTS): tensor for name, tensor in state.items()}
    )


# What this implementation takes for granted: key of config.json -> (the value it must have, also when absent).
_REQUIRED = {"model_type": "distilbert", "tie_word_embeddings": True}
# A field here -> its key in config.json.
_KEYS = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
_KEYS |= {"intermediate_size": "hidden_dim"}


def _read(raw: Mapping[str, Any], path: Path) -> dict[str, Any]:
    return read_fields(DistilBertConfig, raw, path, _REQUIRED, "a DistilBERT encoder", _KEYS)


def _write(config: DistilBertConfig) -> dict[str, Any]:
    values = dataclasses.asdict(config)
    saved = {_KEYS.get(name, name): value for name, value in values.items() if name not in config.unsaved}
    # Sinusoids are how positions may begin; what they have become stands in the weights.
    return saved | {"sinusoidal_pos_embds": False} | _REQUIRED


def _flops(config: DistilBertConfig, lengths: Tensor, masked: int) -> int:
    return bert.encoder_flops(config.bert, lengths, masked) + bert.prediction_flops(config.bert, masked)


DISTILBERT = Architecture(
    config=DistilBertConfig,
    prefix="distilbert",
    presets=PRESETS,
    encoder=DistilBertModel,
    pretraining=DistilBertForMaskedLM,
    heads={
        "sequence_classification": DistilBertForSequenceClassification,
        "token_classification": DistilBertForTokenClassification,
        "question_answering": DistilBertForQuestionAnswering,
        "multiple_choice": DistilBertForMultipleChoice,
    },
    kinds={
        "DistilBertModel": "encoder",
        "DistilBertForMaskedLM": "masked_lm",
        "DistilBertForSequenceClassification": "sequence_classification",
        "DistilBertForTokenClassification": "token_classification",
        "DistilBertForQuestionAnswering": "question_answering",
        "DistilBertForMultipleChoice": "multiple_choice",
    },
    # Copies of tied parameters, and buffers that old versions saved.
    redundant=("predictions.weight", "embeddings.position_ids"),
    to_huggingface=_to_huggingface,
    from_huggingface=_from_huggingface,
    read=_read,
    write=_write,
    flops=_flops,
)
