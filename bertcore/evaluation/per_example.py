"""What each example (a row, a sentence, a question) adds to a metric, so that resamples can be scored."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bertcore.errors import InputError
from bertcore.evaluation import squad
from bertcore.examples.schema import ExampleSet
from bertcore.examples.tag_schemes import entities
from bertcore.files import replace_file

Units = NDArray[np.float64]
"""(n, k): k numbers for each of n examples. `bertcore.evaluation.bootstrap.METRICS` makes a score of them."""


def units(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    """The name in `METRICS` and the units of `metric` for `predicted`, as the family's predictions have them: a label,
    a number, a place or a list of labels or of tags for each row of `table`, or a mapping of question ids to texts."""
    return UNITS[examples.family](examples, table, predicted, metric)


def _classification(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    gold = table["label"].to_pylist()
    if examples.labels is None:
        return metric, np.stack([np.asarray(gold, np.float64), np.asarray(predicted, np.float64)], axis=1)
    code = {label: index for index, label in enumerate(examples.labels)}
    # The class 1 is the second one wherever F1 of a class is asked for: its labels are 0 and 1.
    code = {"0": 0, "1": 1} if metric == "f1" else code
    return metric, np.asarray([(code[a], code[b]) for a, b in zip(gold, predicted, strict=True)], np.float64)


def _multi_label(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
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


def _tagging(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    rows: list[tuple[int, ...]] = []
    for gold_tags, tags in zip(table["tags"].to_pylist(), predicted, strict=True):
        if metric == "accuracy":
            rows.append((sum(a == b for a, b in zip(gold_tags, tags, strict=True)), len(gold_tags)))
        else:
            gold, found = set(entities(gold_tags)), set(entities(tags))
            rows.append((len(gold & found), len(gold), len(found)))
    name = {"accuracy": "ratio"}.get(metric, f"counted_{metric}")
    return name, np.asarray(rows, np.float64)


def _question_answering(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    found = squad.by_question(squad.to_articles(table), predicted)[metric]
    return "mean", np.asarray([found[key] for key in table["id"].to_pylist()], np.float64)[:, None]


def _multiple_choice(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, Units]:
    pairs = zip(table["label"].to_pylist(), predicted, strict=True)
    return "mean", np.asarray([[gold == place] for gold, place in pairs], np.float64)


UNITS: dict[str, Callable[[ExampleSet, pa.Table, Any, str], tuple[str, Units]]] = {
    "classification": _classification,
    "multi_label": _multi_label,
    "tagging": _tagging,
    "question_answering": _question_answering,
    "multiple_choice": _multiple_choice,
}


@dataclass(frozen=True, kw_only=True)
class Records:
    """The examples of one split as several systems answered them."""

    metric: str
    """A key of `bertcore.evaluation.bootstrap.METRICS`."""
    ids: list[str]
    """Of the n examples."""
    runs: dict[str, list[Units]]
    """System -> its runs, one for each seed; of a baseline one."""

    def write(self, path: Path) -> None:
        """Parquet: a row for each system, run and example, with what the example adds to the metric."""
        rows = [
            {"system": system, "run": number, "id": key, "values": values}
            for system, runs in self.runs.items()
            for number, each in enumerate(runs)
            for key, values in zip(self.ids, each.tolist(), strict=True)
        ]
        table = pa.Table.from_pylist(rows, _RECORDS.with_metadata({"metric": self.metric}))
        with replace_file(path) as beside:
            pq.write_table(table, beside, compression="zstd")

    @classmethod
    def read(cls, path: Path) -> "Records":
        """What `write` wrote; `InputError` for anything else."""
        try:
            table = pq.read_table(path)
            metric = (table.schema.metadata or {})[b"metric"].decode()
        except (OSError, KeyError, pa.ArrowException) as error:
            raise InputError(f"{path}: not readable ({error}), expected predictions/TASK/{RECORDS_FILE}") from None
        found: dict[str, dict[int, list[tuple[str, list[float]]]]] = {}
        for row in table.to_pylist():
            found.setdefault(row["system"], {}).setdefault(row["run"], []).append((row["id"], row["values"]))
        ids = [key for key, _ in next(iter(next(iter(found.values())).values()))]
        runs = {
            system: [np.asarray([values for _, values in each], np.float64) for each in of_system.values()]
            for system, of_system in found.items()
        }
        return cls(metric=metric, ids=ids, runs=runs)


RECORDS_FILE = "examples.parquet"
"""Name of the file in a task's predictions."""
_RECORDS = pa.schema(
    [("system", pa.string()), ("run", pa.int64()), ("id", pa.string()), ("values", pa.list_(pa.float64()))]
)
