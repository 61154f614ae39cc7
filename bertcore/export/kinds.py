"""What is known of each kind of class that is exported: its outputs, who loads it, and what the hub calls its use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bertcore.errors import ArtifactError
from bertcore.model.config import kinds_by_class
from bertcore.model.encoder import Kind

SEQUENCE, TOKEN, MASKED = "a row for each sequence", "a row for each token", "a row for each masked token"


@dataclass(frozen=True)
class Row:
    """One kind."""

    outputs: Mapping[str, str]
    """By Hugging Face's names, in Hugging Face's order, and what their rows belong to."""
    auto_class: str
    """The class of transformers that loads it, which must find its keys and no other."""
    tag: str
    """The hub's name for its use."""
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Classes that read a part of it, all but the head for pairs: class -> its outputs by our names."""
    has_pipeline: bool = True
    """Whether `transformers` 5 has a pipeline for its use."""
    labelled: bool = False
    """Whether config.json names the labels."""


_PARTS = {"AutoModelForMaskedLM": {"prediction_logits": "logits"}}
_PAIRS = {"prediction_logits": MASKED, "seq_relationship_logits": SEQUENCE}
_ORDER = {"prediction_logits": MASKED, "sop_logits": SEQUENCE}
_ANSWER = {"start_logits": TOKEN, "end_logits": TOKEN}

ROWS: dict[Kind, Row] = {
    "encoder": Row({"last_hidden_state": TOKEN}, "AutoModel", "feature-extraction"),
    "pooled_encoder": Row({"last_hidden_state": TOKEN, "pooler_output": SEQUENCE}, "AutoModel", "feature-extraction"),
    "pair_pretraining": Row(_PAIRS, "AutoModelForPreTraining", "fill-mask", parts=_PARTS),
    "order_pretraining": Row(_ORDER, "AutoModelForPreTraining", "fill-mask", parts=_PARTS),
    "masked_lm": Row({"logits": MASKED}, "AutoModelForMaskedLM", "fill-mask"),
    "replaced_tokens": Row({"logits": TOKEN}, "AutoModelForPreTraining", "feature-extraction"),
    "sequence_classification": Row(
        {"logits": SEQUENCE}, "AutoModelForSequenceClassification", "text-classification", labelled=True
    ),
    "token_classification": Row(
        {"logits": TOKEN}, "AutoModelForTokenClassification", "token-classification", labelled=True
    ),
    "question_answering": Row(_ANSWER, "AutoModelForQuestionAnswering", "question-answering", has_pipeline=False),
    "multiple_choice": Row({"logits": SEQUENCE}, "AutoModelForMultipleChoice", "multiple-choice", has_pipeline=False),
}


def kind_of_class(architecture: str, where: object) -> Kind:
    """What Hugging Face's class `architecture` gives; `ArtifactError` for one that no row of `ARCHITECTURES` names."""
    kinds = kinds_by_class()
    if architecture not in kinds:
        raise ArtifactError(
            f"{where}: architecture: found {architecture!r}, expected one of {', '.join(kinds)}; "
            "save a model of such a class"
        )
    return kinds[architecture]


def outputs_of_class(architecture: str, where: object) -> Mapping[str, str]:
    """`Row.outputs` of Hugging Face's class `architecture`; `ArtifactError` as `kind_of_class`."""
    return ROWS[kind_of_class(architecture, where)].outputs
