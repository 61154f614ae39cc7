"""Scores by label, of each family that predicts labels: the worst first."""

from typing import Any

import pyarrow as pa
import pytest

from bertcore.evaluation.scoring import by_label
from bertcore.examples.schema import CLASSIFICATION, MULTI_LABEL, TAGGING, ExampleSet

GOLD = {
    "classification": ["a", "a", "b", "b", "b", "c"],
    "multi_label": [["a"], ["a", "b"], ["b"], []],
    "tagging": [["B-a", "I-a", "O"], ["B-b", "B-b", "O"]],
}
PREDICTED = {
    "classification": ["b", "b", "b", "b", "a", "c"],
    "multi_label": [["a"], ["b"], ["b"], ["b"]],
    "tagging": [["B-a", "O", "O"], ["B-b", "B-b", "B-c"]],
}
COLUMNS = {
    "classification": ("label", CLASSIFICATION),
    "multi_label": ("labels", MULTI_LABEL),
    "tagging": ("tags", TAGGING),
}


def scored(family: str, metrics: list[str], labels: list[str] | None) -> dict[str, dict[str, Any]]:
    column, schema = COLUMNS[family]
    rows = [
        {"id": str(n), "words": ["word"] * 3, "text_a": "text", column: gold} for n, gold in enumerate(GOLD[family])
    ]
    table = pa.Table.from_pylist(rows, schema)
    return by_label(ExampleSet(family=family, labels=labels, metrics=metrics, splits={}), table, PREDICTED[family])


@pytest.mark.parametrize(
    ("family", "metrics", "expected"),
    [
        ("classification", ["accuracy"], {"a": 0.0, "b": 4 / 7, "c": 1.0}),
        ("multi_label", ["micro_f1"], {"d": 0.0, "a": 2 / 3, "b": 0.8}),
        ("tagging", ["f1"], {"a": 0.0, "c": 0.0, "b": 1.0}),
        ("tagging", ["accuracy"], {"I-a": 0.0, "B-c": 0.0, "O": 0.5, "B-b": 1.0, "B-a": 1.0}),
    ],
)
def test_the_worst_label_is_first_and_of_equals_the_most_frequent(
    family: str, metrics: list[str], expected: dict[str, float]
) -> None:
    found = scored(family, metrics, ["a", "b", "d"] if family == "multi_label" else ["a", "b", "c"])
    assert [(label, pytest.approx(each["f1"])) for label, each in found.items()] == list(expected.items())


def test_tags_that_mark_no_entities_are_confused_with_each_other() -> None:
    found = scored("tagging", ["accuracy"], None)["I-a"]
    assert (found["gold"], found["confused_with"], found["confused"]) == (1, "O", 1)


def test_numbers_and_places_have_no_labels() -> None:
    table = pa.table({"id": ["0"], "label": [1.0]})
    for family in ("classification", "question_answering", "multiple_choice"):
        assert by_label(ExampleSet(family=family, labels=None, metrics=["pearson"], splits={}), table, [1.0]) == {}
