"""GLUE's own metrics for any predictions file.

    python -m bertcore.evaluation.glue TASK GOLD.tsv PREDICTIONS.tsv

GOLD.tsv is a labelled file in the task's original layout, PREDICTIONS.tsv what GLUE's server takes: a header
`index<TAB>prediction` and one row for each row of the gold file, counted from 0. Scores are shares, not percentages.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bertcore.config import suggest
from bertcore.errors import ConfigError, InputError
from bertcore.evaluation.by_index import read_by_index
from bertcore.evaluation.classification import compute
from bertcore.evaluation.command import print_result
from bertcore.examples.bad_rows import BadRowError
from bertcore.examples.glue import TASKS, GlueTask, parse_label, read_file

# The layout that each task's files have; three share MNLI's. AX is scored by Matthews, as the diagnostic set asks.
LAYOUTS = {name: name for name in TASKS} | {"mnlim": "mnli", "mnlimm": "mnli", "ax": "mnli"}
TASK_METRICS: dict[str, list[str]] = {name: TASKS[layout].metrics for name, layout in LAYOUTS.items()} | {"ax": ["mcc"]}


def evaluate(task: str, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, float]:
    """The metrics of `task`, such as `cola`, `sts-b` or `MNLI-mm`, and where it has two, their `mean`.

    CoLA, AX: Matthews; MRPC, QQP: accuracy and F1; STS-B: Pearson and Spearman; all others: accuracy. Constant
    predictions score 0.0 in Matthews and in the correlations (see `classification`).
    """
    scores = compute(TASK_METRICS[canonical(task)], gold, predicted)
    return {**scores, "mean": statistics.fmean(scores.values())} if len(scores) > 1 else scores


def evaluate_files(task: str, gold_path: Path, predictions_path: Path) -> dict[str, float]:
    """`evaluate` on a gold file and a predictions file; `InputError` names the file and row that is wrong."""
    layout = LAYOUTS[canonical(task)]
    gold = read_file(layout, gold_path)
    predicted = read_predictions(TASKS[layout], predictions_path)
    return evaluate(task, gold["label"].to_pylist(), _aligned(gold, predicted, predictions_path))


def read_predictions(task: GlueTask, path: Path) -> dict[str, Any]:
    """Index -> predicted label (or number) of a file in GLUE's submission layout."""
    predicted: dict[str, Any] = {}
    for where, index, cell in read_by_index(path, "prediction"):
        try:
            predicted[index] = parse_label(task, cell)
        except BadRowError as bad:
            raise InputError(f"{where}: {bad}; correct the row") from None
    return predicted


def canonical(task: str) -> str:
    """`task` in the spelling of `TASK_METRICS`: `SST-2` is `sst2`."""
    name = task.lower().replace("-", "").replace("_", "")
    if name not in TASK_METRICS:
        raise ConfigError(f"unknown GLUE task {task!r}; {suggest(name, TASK_METRICS)}")
    return name


def _aligned(gold: pa.Table, predicted: dict[str, Any], path: Path) -> list[Any]:
    keys = gold["id"].to_pylist()
    for problem, found in (
        ("no prediction for", [key for key in keys if key not in predicted]),
        ("no gold row for", sorted(predicted.keys() - set(keys))),
    ):
        if found:
            raise InputError(
                f"{path}: {problem} the index {found[0]!r} ({len(found)} such), "
                f"expected 0 to {len(keys) - 1}, each once; correct the file"
            )
    return [predicted[key] for key in keys]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bertcore.evaluation.glue", description=__doc__.splitlines()[0])
    parser.add_argument("task", help=", ".join(TASK_METRICS))
    parser.add_argument("gold", type=Path, help="labelled TSV in the task's original layout, also .gz or .zst")
    parser.add_argument("predictions", type=Path, help="TSV: index, prediction")
    options = parser.parse_args(arguments)
    return print_result(lambda: evaluate_files(options.task, options.gold, options.predictions))


if __name__ == "__main__":
    sys.exit(main())
