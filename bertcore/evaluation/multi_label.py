"""F1 and exact match of sets of labels, equal to scikit-learn's on the table of examples by labels.

    python -m bertcore.evaluation.multi_label GOLD.tsv PREDICTIONS.tsv [--label-separator ,]

Both files have one row for each example: its index, a tab, and its labels, none or many, between them the separator;
or, as labels may hold it, a JSON list of them. A header, where there is one, begins with `index` or `id`. Scores are
shares.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bertcore.errors import ConfigError, InputError
from bertcore.evaluation.by_index import read_by_index
from bertcore.evaluation.classification import f1_of_counts, scores_of_counts
from bertcore.evaluation.command import print_result

LabelSets: TypeAlias = Sequence[Iterable[str]]
"""The labels of each example; their order says nothing."""

SEPARATOR = ","
"""Between the labels of one example."""

METRICS = ("micro_f1", "macro_f1", "exact_match")


def evaluate(gold: LabelSets, predicted: LabelSets, labels: Sequence[str] | None = None) -> dict[str, float]:
    """`micro_f1` over all decisions, `macro_f1` (the plain mean over `labels`) and `exact_match`, the share of examples
    whose sets are equal.

    `labels` None stands for those that are gold or predicted somewhere. The F1 of a label that is neither is 0.0.
    """
    if len(gold) != len(predicted) or not len(gold):
        raise InputError(f"predictions: found {len(predicted)} for {len(gold)} gold label sets, expected one for each")
    pairs = [(set(a), set(b)) for a, b in zip(gold, predicted, strict=True)]
    counts = _counts(pairs, labels)
    totals = [sum(each) for each in zip(*counts.values(), strict=True)] or [0, 0, 0]
    return {
        "micro_f1": f1_of_counts(*totals),
        "macro_f1": float(np.mean([f1_of_counts(*each) for each in counts.values()])) if counts else 0.0,
        "exact_match": sum(a == b for a, b in pairs) / len(pairs),
    }


def by_label(gold: LabelSets, predicted: LabelSets, labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`scores_of_counts` of each of `labels`, also of those that are neither gold nor predicted."""
    pairs = [(set(a), set(b)) for a, b in zip(gold, predicted, strict=True)]
    return {name: scores_of_counts(*each) for name, each in _counts(pairs, labels).items()}


def _counts(pairs: Sequence[tuple[set[str], set[str]]], labels: Sequence[str] | None) -> dict[str, list[int]]:
    """Label -> how often it is right, gold and predicted."""
    correct = Counter(label for a, b in pairs for label in a & b)
    of_gold = Counter(label for a, _ in pairs for label in a)
    of_predicted = Counter(label for _, b in pairs for label in b)
    found = of_gold.keys() | of_predicted.keys()
    names = sorted(found) if labels is None else labels
    if unknown := sorted(found - set(names)):
        raise InputError(f"predictions: found the label {unknown[0]!r}, expected one of: {', '.join(names)}")
    return {name: [correct[name], of_gold[name], of_predicted[name]] for name in names}


def compute(metrics: Sequence[str], gold: LabelSets, predicted: LabelSets, labels: Sequence[str]) -> dict[str, float]:
    """Each of `metrics`, which are keys of `evaluate`."""
    scores = evaluate(gold, predicted, labels)
    return {name: scores[name] for name in metrics}


def read_label_sets(path: Path, separator: str) -> dict[str, list[str]]:
    """Index -> labels, of a file as the module describes."""
    return {index: _labels(cell, separator) for _, index, cell in read_by_index(path, "labels")}


def cell_of(labels: Sequence[str], separator: str = SEPARATOR) -> str:
    """The labels of one example as `read_label_sets` reads them: separated, or a JSON list where that says something
    else."""
    joined = separator.join(labels)
    plain = _labels(joined, separator) == list(labels) and not any(character in "\t\r\n" for character in joined)
    return joined if plain else json.dumps(list(labels), ensure_ascii=False)


def _labels(cell: str, separator: str) -> list[str]:
    if cell.startswith(_LIST):
        try:
            return [str(label) for label in json.loads(cell)]
        except json.JSONDecodeError:
            pass  # a label may begin like a list
    return [label.strip() for label in cell.split(separator) if label.strip()]


_LIST = '["'
"""How a JSON list of labels begins."""


def evaluate_files(gold_path: Path, predictions_path: Path, separator: str = SEPARATOR) -> dict[str, float]:
    """`evaluate` on two files, which must have the same indices."""
    if not separator:
        raise ConfigError("--label-separator: found nothing, expected what stands between two labels, such as ','")
    gold, predicted = (read_label_sets(path, separator) for path in (gold_path, predictions_path))
    if other := sorted(gold.keys() ^ predicted.keys()):
        raise InputError(
            f"{predictions_path}: the index {other[0]!r} stands in one file only ({len(other)} such), expected "
            f"those of {gold_path}; correct the file"
        )
    return evaluate(list(gold.values()), [predicted[key] for key in gold])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bertcore.evaluation.multi_label", description=__doc__.splitlines()[0]
    )
    parser.add_argument("gold", type=Path, help="TSV: index, labels; also .gz, .zst")
    parser.add_argument("predictions", type=Path, help="the same with the predicted labels")
    parser.add_argument("--label-separator", default=SEPARATOR, help="between the labels of one example (default ,)")
    options = parser.parse_args(arguments)
    return print_result(lambda: evaluate_files(options.gold, options.predictions, options.label_separator))


if __name__ == "__main__":
    sys.exit(main())
