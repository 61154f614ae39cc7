"""Classes, sets of labels or numbers for texts and pairs of texts, by a model of stage `finetune`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertcore.apply.finetuned import FineTuned
from bertcore.errors import InputError
from bertcore.examples.schema import schema_of
from bertcore.finetune.texts import Text

CLASSIFY, REGRESS = ("classify", "classify-multi"), ("regress",)
"""What a model must be for."""


def classify(model: FineTuned, texts: Sequence[Text], progress: str | None = None) -> list[dict[str, Any]]:
    """For each text `label` and its `probability`; of sets `labels`; of a number `score`. Beside a label or labels the
    `probabilities` of all that there are, the largest first. `cut`: whether the model has not seen all of the text."""
    found = model.predict(_table(model, texts), progress)
    predicted = found.predictions.predicted
    if model.labels is None:
        return found.with_cut({"score": score} for score in predicted)
    logits = found.features.pooled(found.logits).astype(np.float64)
    is_set = _is_set(model)
    rows = []
    shares = 1 / (1 + np.exp(-logits)) if is_set else softmax(logits)
    for label, row in zip(predicted, shares, strict=True):
        order = np.argsort(-row, kind="stable")
        probabilities = {model.labels[index]: float(row[index]) for index in order}
        best = {"labels": label} if is_set else {"label": label, "probability": probabilities[label]}
        rows.append({**best, "probabilities": probabilities})
    return found.with_cut(rows)


def no_answer(model: FineTuned) -> dict[str, Any]:
    """What stands in the place of a row of `classify` for a text that holds nothing."""
    if model.labels is None:
        return {"score": None}
    if _is_set(model):
        return {"labels": [], "probabilities": {}}
    return {"label": None, "probability": None, "probabilities": {}}


def _is_set(model: FineTuned) -> bool:
    return model.description.problem == "multi_label_classification"


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Along the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _table(model: FineTuned, texts: Sequence[Text]) -> pa.Table:
    schema = schema_of("multi_label" if _is_set(model) else "classification", model.labels)
    _check_pairs(model, texts)
    pairs = [(text, None) if isinstance(text, str) else text for text in texts]
    columns = [[str(row) for row in range(len(pairs))], *([pair[side] for pair in pairs] for side in (0, 1))]
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.table([*arrays, pa.nulls(len(pairs), schema.field(3).type)], schema=schema)


def _check_pairs(model: FineTuned, texts: Sequence[Text]) -> None:
    wanted, where = model.description.pairs, model.description.directory.name  # servers tell no paths
    if wanted is None or all(isinstance(text, str) != wanted for text in texts):
        return
    raise InputError(
        f"{where}: found one text, expected two, as in all that it was fine-tuned on; give the second one (--pair, "
        "--pair-column, `pairs` of a request), or another model"
        if wanted
        else f"{where}: found two texts, expected one, as in all that it was fine-tuned on; leave the second one "
        "out, or give another model"
    )
