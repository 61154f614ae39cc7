"""The right one of choices by a model of stage `finetune`, as its scores were made, and all of them in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertcore.apply.classify import softmax
from bertcore.apply.finetuned import FineTuned
from bertcore.errors import TextError
from bertcore.examples.bad_rows import BadRowError
from bertcore.examples.choices import check
from bertcore.examples.schema import MULTIPLE_CHOICE
from bertcore.finetune.multiple_choice import of_examples


@dataclass(frozen=True)
class Asked:
    """A context with its choices."""

    context: str
    choices: Sequence[str]
    question: str | None = None
    """What is put before each choice."""


def choose(model: FineTuned, asked: Sequence[Asked], progress: str | None = None) -> list[dict[str, Any]]:
    """For each context the best `choice` with its `index` from 0 and its `probability` among the choices; `ranked` has
    all of them so, the best first; `cut`: whether the model has not seen all of the context or of a choice.

    `TextError` for a context or a choice without words, or fewer than two choices."""
    rows = []
    for number, each in enumerate(asked):
        try:
            check(each.context, each.choices)
        except BadRowError as error:
            raise TextError(number, f"context {each.context[:60]!r}: {error}; correct it") from None
        rows.append({"id": str(number), **vars(each), "label": None})
    return choose_rows(model, pa.Table.from_pylist(rows, MULTIPLE_CHOICE), progress)


def choose_rows(model: FineTuned, table: pa.Table, progress: str | None = None) -> list[dict[str, Any]]:
    """The same of a table in the schema `MULTIPLE_CHOICE`, whose labels may be null."""
    found = model.predict(table, progress)
    logits = of_examples(found.features, found.logits)
    return found.with_cut(_ranked(*each) for each in zip(table["choices"].to_pylist(), logits, strict=True))


def _ranked(choices: list[str], logits: NDArray[np.float32]) -> dict[str, Any]:
    probabilities = softmax(logits.astype(np.float64))
    ranked = [
        {"choice": choices[index], "index": int(index), "probability": float(probabilities[index])}
        for index in np.argsort(-logits, kind="stable")
    ]
    return {**ranked[0], "ranked": ranked}
