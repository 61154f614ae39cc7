"""Answers to questions by a model of stage `finetune`, cut out of a context, exactly as its scores were made.

A context may be of any length: it is read in overlapping windows. "" is "no answer", which only a model knows that has
learned from questions without answers.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bertcore.apply.finetuned import FineTuned, Predicted
from bertcore.errors import TextError
from bertcore.examples.bad_rows import has_words
from bertcore.examples.schema import QUESTION_ANSWERING
from bertcore.finetune.answers import Answer
from bertcore.finetune.question_answering import Answers


def answer(model: FineTuned, questions: pa.Table, progress: str | None = None) -> Answers:
    """The answers to `questions` (`schema.QUESTION_ANSWERING`; their own answers may be null)."""
    return _answers(model.predict(questions, progress))


def _answers(found: Predicted) -> Answers:
    assert isinstance(found.predictions, Answers)
    return found.predictions


def check_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """`TextError` for a question or a context without words."""
    for place, pair in enumerate(pairs):
        for name, text in zip(("question", "context"), pair, strict=True):
            if not has_words(text):
                raise TextError(place, f"{name}: found {text[:60]!r}, expected words; give some")


def answer_pairs(
    model: FineTuned, pairs: Sequence[tuple[str, str]], progress: str | None = None
) -> list[dict[str, Any]]:
    """For each (question, context) the `answer`, and the `best` ones with `probability`, `start` and `end`: the
    characters of the place in the context that it was cut out of; null for "". `cut`: whether the model has not seen
    all of the question.

    `TextError` for a question or a context without words.
    """
    check_pairs(pairs)
    rows: list[dict[str, Any]] = [
        {"id": str(number), "title": "", "context": context, "question": question, "answers": None}
        for number, (question, context) in enumerate(pairs)
    ]
    predicted = model.predict(pa.Table.from_pylist(rows, QUESTION_ANSWERING), progress)
    found = _answers(predicted)
    return predicted.with_cut(
        {"answer": found.predicted[row["id"]], "best": [_placed(each) for each in found.n_best[row["id"]]]}
        for row in rows
    )


def _placed(found: Answer) -> dict[str, Any]:
    start = found["start"]
    end = None if start is None else start + len(found["text"])
    return {"text": found["text"], "probability": found["probability"], "start": start, "end": end}
