"""What a saved model takes and gives, in MLflow's words: its signature and an example."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types.schema import (
    AnyType,
    Array,
    ColSpec,
    DataType,
    Map,
    Object,
    ParamSchema,
    ParamSpec,
    Property,
    Schema,
    TensorSpec,
)

_TEXT, _WHOLE, _REAL = DataType.string, DataType.long, DataType.double
_CUT = {"cut": DataType.boolean}

HEADS = {
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tag",
    "ForQuestionAnswering": "answer",
    "ForMultipleChoice": "choose",
    "ForMaskedLM": "fill-mask",
    "ForPreTraining": "fill-mask",
}
"""The end of a class's name in `transformers` -> what it is for, as `bertcore.apply.uses.USES` has it, which no
stage may depend on for what is only logged; a test compares the two."""
_WITHOUT_WORDS = ("DebertaV2ForPreTraining", "ElectraForPreTraining")
"""They say which tokens were replaced, and have no words for a mask."""


def use_of(config: Mapping[str, Any]) -> str:
    """What the model with this config.json is for."""
    name = (config.get("architectures") or [""])[0]
    use = next((use for head, use in HEADS.items() if name.endswith(head)), "embed")
    if use == "classify":
        one = len(config.get("id2label") or {}) == 1
        problem = config.get("problem_type") or ("regression" if one else "single_label_classification")
        return _CLASSIFIERS[problem]
    return "embed" if name in _WITHOUT_WORDS else use


_CLASSIFIERS = {
    "single_label_classification": "classify",
    "multi_label_classification": "classify-multi",
    "regression": "regress",
}


def signature(use: str) -> ModelSignature:
    """Of a model for `use`."""
    given = {"answer": ["question", "context"], "choose": ["context"]}.get(use, ["text"])
    inputs: list[ColSpec | TensorSpec] = [ColSpec(_TEXT, name) for name in given]
    if use == "choose":
        inputs += [ColSpec(Array(_TEXT), "choices"), ColSpec(_TEXT, "question", required=False)]
    if use in _CLASSIFIERS.values():
        inputs.append(ColSpec(_TEXT, "pair", required=False))
    top = [ParamSpec("top", _WHOLE, 5)] if use in ("answer", "fill-mask") else []
    outputs: list[ColSpec | TensorSpec] = [ColSpec(kind, name) for name, kind in _OUTPUTS[use].items()]
    return ModelSignature(Schema(inputs), Schema(outputs), ParamSchema(top))


def example(use: str, pairs: bool) -> pd.DataFrame:
    """One question for a model for `use`; of two texts, where it has learned from `pairs`."""
    if use == "answer":
        return pd.DataFrame({"question": ["What does it return?"], "context": ["It reads a file and returns a list."]})
    if use == "choose":
        choices = ["The lines of the file.", "The price of bread."]
        return pd.DataFrame({"context": ["It reads a file and returns a list."], "choices": [choices]})
    text = "it returns the [MASK] of a list" if use == "fill-mask" else "return the lines of a file as a list"
    return pd.DataFrame({"text": [text], **({"pair": ["the file is read line by line"]} if pairs else {})})


def _objects(**kinds: Any) -> Array:
    return Array(Object([Property(name, kind) for name, kind in kinds.items()]))


_OUTPUTS: dict[str, dict[str, Any]] = {
    "fill-mask": {"masks": Array(_objects(word=_TEXT, probability=_REAL, text=_TEXT))},
    "classify": {"label": _TEXT, "probability": _REAL, "probabilities": Map(_REAL), **_CUT},
    "classify-multi": {"labels": Array(_TEXT), "probabilities": Map(_REAL), **_CUT},
    "regress": {"score": _REAL, **_CUT},
    "tag": {
        "words": _objects(word=_TEXT, tag=_TEXT, start=_WHOLE, end=_WHOLE),
        "entities": _objects(text=_TEXT, label=_TEXT, start=_WHOLE, end=_WHOLE),
        **_CUT,
    },
    # No answer stands nowhere, and has null places.
    "answer": {
        "answer": _TEXT,
        "best": _objects(text=_TEXT, probability=_REAL, start=AnyType(), end=AnyType()),
        **_CUT,
    },
    "choose": {
        **{"choice": _TEXT, "index": _WHOLE, "probability": _REAL},
        "ranked": _objects(choice=_TEXT, index=_WHOLE, probability=_REAL),
        **_CUT,
    },
    "embed": {"vector": Array(_REAL)},
}
