"""How good predictions are, by head family: all together, and what each example adds to that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bertcore.evaluation import classification, multi_label, squad, tagging
from bertcore.evaluation.per_example import Units
from bertcore.examples.schema import ExampleSet
from bertcore.examples.tag_schemes import entities


@dataclass(frozen=True)
class Scoring:
    """Of one family. The functions take the examples, the table of one split that has labels, and what is predicted for
    it, as the family's predictions have it: a label, a number, a place or a list of labels or of tags for each row, or
    a mapping of question ids to texts."""

    score: Callable[[ExampleSet, pa.Table, Any, Sequence[str]], dict[str, float]]
    """Each of the metrics."""
    units: Callable[[ExampleSet, pa.Table, Any, str], tuple[str, Units]]
    """Of a metric: its name in `bootstrap.METRICS`, and its units."""
    by_label: Callable[[ExampleSet, pa.Table, Any], dict[Any, dict[str, Any]]] | None = None
    """Of a family that predicts labels: see `by_label`."""


def score(examples: ExampleSet, table: pa.Table, predicted: Any, metrics: Sequence[str]) -> dict[str, float]:
    """Each of `metrics` of what is `predicted` for `table`; see `Scoring`."""
    found = SCORINGS[examples.family].score(examples, table, predicted, metrics)
    return {name: float(value) for name, value in found.items()}


def units(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    """What each row of `table` adds to `metric`, and the name of that sum in `bootstrap.METRICS`; see `Scoring`."""
    return SCORINGS[examples.family].units(examples, table, predicted, metric)


def by_label(examples: ExampleSet, table: pa.Table, predicted: Any) -> dict[str, dict[str, Any]]:
    """Label -> how often it is `gold` and `predicted`, its `precision`, `recall` and `f1`, and in some families what it
    was `confused_with`; the lowest F1 first, of equals the most frequent label. Empty where nothing is a label."""
    of_family = SCORINGS[examples.family].by_label
    found = of_family(examples, table, predicted) if of_family else {}
    ordered = sorted(found.items(), key=lambda item: (item[1]["f1"], -item[1]["gold"], item[0]))
    return {str(label): scores for label, scores in ordered}


def _classes(_: ExampleSet, table: pa.Table, predicted: Any, metrics: Sequence[str]) -> dict[str, float]:
    return classification.compute(metrics, table["label"].to_pylist(), predicted)


def _sets(examples: ExampleSet, table: pa.Table, predicted: Any, metrics: Sequence[str]) -> dict[str, float]:
    return multi_label.compute(metrics, table["labels"].to_pylist(), predicted, examples.labels or [])


def _tags(_: ExampleSet, table: pa.Table, predicted: Any, metrics: Sequence[str]) -> dict[str, float]:
    return tagging.compute(metrics, table["tags"].to_pylist(), predicted)


def _answers(_: ExampleSet, table: pa.Table, predicted: Any, metrics: Sequence[str]) -> dict[str, float]:
    return squad.shares(table, predicted, metrics)


def _units_of_classes(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    gold = table["label"].to_pylist()
    if examples.labels is None:
        return metric, np.stack([np.asarray(gold, np.float64), np.asarray(predicted, np.float64)], axis=1)
    code = {label: index for index, label in enumerate(examples.labels)}
    # The class 1 is the second one wherever F1 of a class is asked for: its labels are 0 and 1.
    code = {"0": 0, "1": 1} if metric == "f1" else code
    return metric, np.asarray([(code[a], code[b]) for a, b in zip(gold, predicted, strict=True)], np.float64)


def _units_of_sets(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    labels = examples.labels or []
    sides = [
        np.asarray([[label in row for label in labels] for row in rows])
        for rows in (table["labels"].to_pylist(), predicted)
    ]
    if metric == "exact_match":
        return "mean", (sides[0] == sides[1]).all(axis=1, keepdims=True).astype(np.float64)
    counts = np.stack([sides[0] & sides[1], *sides], axis=1).astype(np.float64)  # (n, 3, labels)
    if metric == "micro_f1":
        return "counted_f1", counts.sum(axis=2)
    return "mean_f1", counts.reshape(len(counts), -1)


def _units_of_tags(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    rows: list[tuple[int, ...]] = []
    for gold_tags, tags in zip(table["tags"].to_pylist(), predicted, strict=True):
        if metric == "accuracy":
            rows.append((sum(a == b for a, b in zip(gold_tags, tags, strict=True)), len(gold_tags)))
        else:
            gold, found = set(entities(gold_tags)), set(entities(tags))
            rows.append((len(gold & found), len(gold), len(found)))
    name = {"accuracy": "ratio"}.get(metric, f"counted_{metric}")
    return name, np.asarray(rows, np.float64)


def _units_of_answers(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    found = squad.by_question(squad.to_articles(table), predicted)[metric]
    return "mean", np.asarray([found[key] for key in table["id"].to_pylist()], np.float64)[:, None]


def _units_of_choices(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    pairs = zip(table["label"].to_pylist(), predicted, strict=True)
    return "mean", np.asarray([[gold == place] for gold, place in pairs], np.float64)


def _classes_by_label(examples: ExampleSet, table: pa.Table, predicted: Any) -> dict[Any, dict[str, Any]]:
    return {} if examples.labels is None else classification.by_label(table["label"].to_pylist(), predicted)


def _sets_by_label(examples: ExampleSet, table: pa.Table, predicted: Any) -> dict[Any, dict[str, Any]]:
    return multi_label.by_label(table["labels"].to_pylist(), predicted, examples.labels or [])


def _tags_by_label(examples: ExampleSet, table: pa.Table, predicted: Any) -> dict[Any, dict[str, Any]]:
    """Of types of entities; where tags mark none, of the tags."""
    gold = table["tags"].to_pylist()
    if examples.metrics == ["accuracy"]:
        return classification.by_label(*([tag for tags in side for tag in tags] for side in (gold, predicted)))
    return tagging.evaluate(gold, predicted)["types"]


SCORINGS = {
    "classification": Scoring(_classes, _units_of_classes, _classes_by_label),
    "multi_label": Scoring(_sets, _units_of_sets, _sets_by_label),
    "tagging": Scoring(_tags, _units_of_tags, _tags_by_label),
    "question_answering": Scoring(_answers, _units_of_answers),
    "multiple_choice": Scoring(_classes, _units_of_choices),
}
