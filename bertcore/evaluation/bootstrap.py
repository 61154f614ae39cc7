"""Is one system better than another? A paired bootstrap over the examples, combined with the spread over seeds.

    python -m bertcore.evaluation.bootstrap predictions/TASK/examples.parquet
    python -m bertcore.evaluation.bootstrap predictions/TASK/examples.parquet --against OTHER/examples.parquet

Every metric here is a function of sums over examples, or of ranks, so that a resample is a weight for each example: how
often it was drawn. Both systems of a pair have the same weights. Shapes: n examples, R resamples, k numbers an example.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bertcore.errors import InputError
from bertcore.evaluation.command import print_result
from bertcore.evaluation.per_example import RECORDS_FILE, Records, Units

RESAMPLES = 1000
LEVEL = 0.95
"""Of the interval: two equal systems are called different in one of twenty cases."""

_AT_ONCE = 4_000_000
"""Weights drawn at a time; bounds the memory at about 100 MB."""
_TINY = 1e-12
_DIGITS = 9
"""Of what is given out: the last bits of a sum depend on the machine."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How much better one system is than another."""

    difference: float
    """Of the two means over the seeds, in the metric's own unit."""
    low: float
    """Of the interval that holds the true difference in `LEVEL` of all cases."""
    high: float


def compare(metric: str, ours: Sequence[Units], others: Sequence[Units], seed: int = 1) -> Difference:
    """The difference between two systems by `metric`, each with the units of one run for every seed.

    The examples give a percentile interval, over `RESAMPLES` resamples of the same examples for both. The seeds, where
    a system has several, give Welch's t interval of the two means. Both are independent, so their half-widths add as
    squares. Of a single run the spread over seeds is not known, and not in the interval.
    """
    lengths = {len(each) for each in (*ours, *others)}
    if len(lengths) != 1 or not max(lengths):
        raise InputError(f"comparison: found runs over {sorted(lengths)} examples, expected the same ones in each")
    once = np.ones((1, max(lengths)))
    ours_once, others_once = (np.concatenate([scores(metric, each, once) for each in runs]) for runs in (ours, others))
    centre = float(ours_once.mean() - others_once.mean())
    drawn = np.concatenate([_mean(metric, ours, w) - _mean(metric, others, w) for w in weights(max(lengths), seed)])
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    of_seeds = _welch(ours_once, others_once)
    return Difference(
        difference=round(centre, _DIGITS),
        low=round(centre - math.hypot(max(centre - float(low), 0.0), of_seeds), _DIGITS),
        high=round(centre + math.hypot(max(float(high) - centre, 0.0), of_seeds), _DIGITS),
    )


def weights(examples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """(r, n) parts of the `RESAMPLES` rows of weights, each of which sums to `examples`."""
    generator = np.random.default_rng(seed)
    step = max(_AT_ONCE // examples, 1)
    for first in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - first)
        drawn = generator.integers(examples, size=(rows, examples)) + examples * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * examples).reshape(rows, examples).astype(np.float64)


def scores(metric: str, units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(R,) the metric of each resample; where all weights are 1, the metric itself."""
    return METRICS[metric](units, weights)


def _mean(metric: str, runs: Sequence[Units], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.mean([scores(metric, each, weights) for each in runs], axis=0)


def _welch(ours: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Half the width of the t interval for the difference of two means; 0 where no system has two values."""
    parts = [(float(np.var(each, ddof=1)) / len(each), len(each) - 1) for each in (ours, others) if len(each) > 1]
    variance = sum(part for part, _ in parts)
    if variance <= _TINY**2:
        return 0.0
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    return float(stats.t.ppf(0.5 + LEVEL / 2.0, freedom)) * math.sqrt(variance)


def _quotient(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """0/0 counts as 0, as in every metric of this package."""
    return np.divide(above, below, out=np.zeros_like(above), where=np.abs(below) > _TINY)


def _mean_of(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return weights @ units[:, 0] / weights.sum(axis=1)


def _ratio(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return _quotient(weights @ units[:, 0], weights @ units[:, 1])


def _counted(units: Units, weights: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """(R,) right, gold and predicted ones."""
    return list((weights @ units).T)


def _counted_f1(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    right, gold, predicted = _counted(units, weights)
    return _quotient(2.0 * right, gold + predicted)


def _counted_precision(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    right, _, predicted = _counted(units, weights)
    return _quotient(right, predicted)


def _counted_recall(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    right, gold, _ = _counted(units, weights)
    return _quotient(right, gold)


def _mean_f1(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The plain mean over all labels, each with three counts."""
    right, gold, predicted = (weights @ units).reshape(len(weights), 3, -1).transpose(1, 0, 2)
    return _quotient(2.0 * right, gold + predicted).mean(axis=1)


def _accuracy(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return weights @ (units[:, 0] == units[:, 1]) / weights.sum(axis=1)


def _f1(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    gold, predicted = units[:, 0] == 1, units[:, 1] == 1
    return _counted_f1(np.stack([gold & predicted, gold, predicted], axis=1).astype(np.float64), weights)


def _class_counts(units: Units, weights: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """(R, classes) right, gold and predicted ones of every class that occurs somewhere."""
    classes = np.unique(units)
    gold, predicted = (units[:, side, None] == classes for side in (0, 1))
    return [weights @ each for each in (gold & predicted, gold, predicted)]


def _macro_f1(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    right, gold, predicted = _class_counts(units, weights)
    return _quotient(2.0 * right, gold + predicted).sum(axis=1) / (gold + predicted > _TINY).sum(axis=1)


def _mcc(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    right, gold, predicted = _class_counts(units, weights)
    total = weights.sum(axis=1)
    covariance = right.sum(axis=1) * total - (gold * predicted).sum(axis=1)
    spread = (total**2 - (gold**2).sum(axis=1)) * (total**2 - (predicted**2).sum(axis=1))
    return _quotient(covariance, np.sqrt(spread))


def _pearson(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y = (np.broadcast_to(_scaled(units[:, column]), weights.shape) for column in (0, 1))
    return _correlation(x, y, weights)


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """With mean 0 and a largest of 1, whatever their unit; as they are where they are all the same but for rounding."""
    centred = values - values.mean()
    largest = np.abs(centred).max()
    return centred / largest if largest > _TINY * np.abs(values).max() else values


def _spearmanr(units: Units, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return _correlation(_ranks(units[:, 0], weights), _ranks(units[:, 1], weights), weights)


def _ranks(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(R, n) the ranks that the values have in each resample, equal ones sharing the mean of theirs."""
    _, codes = np.unique(values, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    firsts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    of_value = np.add.reduceat(weights[:, order], firsts, axis=1)  # (R, distinct values)
    return (np.cumsum(of_value, axis=1) - 0.5 * (of_value - 1.0))[:, codes]


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    total = weights.sum(axis=1, keepdims=True)
    x, y = (each - (weights * each).sum(axis=1, keepdims=True) / total for each in (x, y))
    squares = ((weights * each**2).sum(axis=1) for each in (x, y))
    return _quotient((weights * x * y).sum(axis=1), np.sqrt(math.prod(squares)))


METRICS: dict[str, Callable[[Units, NDArray[np.float64]], NDArray[np.float64]]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "macro_f1": _macro_f1,
    "mcc": _mcc,
    "pearson": _pearson,
    "spearmanr": _spearmanr,
    "mean": _mean_of,
    "ratio": _ratio,
    "counted_f1": _counted_f1,
    "counted_precision": _counted_precision,
    "counted_recall": _counted_recall,
    "mean_f1": _mean_f1,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bertcore.evaluation.bootstrap", description=__doc__.splitlines()[0]
    )
    parser.add_argument("records", type=Path, help=f"such as predictions/TASK/{RECORDS_FILE}")
    parser.add_argument("--system", default="pretrained", help="compared with all others (default %(default)s)")
    parser.add_argument(
        "--against", type=Path, help="records of the same examples: compared with the same system there, and no other"
    )
    options = parser.parse_args(arguments)
    return print_result(lambda: _compared(Records.read(options.records), options.system, options.against))


def _compared(records: Records, system: str, against: Path | None) -> dict[str, Any]:
    ours = _runs(records, system)
    if against is None:
        others = {name: runs for name, runs in records.runs.items() if name != system}
    else:
        there = Records.read(against)
        if (there.metric, there.ids) != (records.metric, records.ids):
            raise InputError(f"{against}: found another metric or other examples, expected those of the first file")
        others = {str(against): _runs(there, system)}
        columns = _GOLD.get(records.metric, [])
        if not np.array_equal(ours[0][:, columns], others[str(against)][0][:, columns]):
            raise InputError(f"{against}: found other right answers for the same ids, expected the same examples")
    return {name: asdict(compare(records.metric, ours, runs)) for name, runs in others.items()}


_GOLD = {
    **dict.fromkeys(("accuracy", "f1", "macro_f1", "mcc", "pearson", "spearmanr"), [0]),
    **dict.fromkeys(("ratio", "counted_f1", "counted_precision", "counted_recall"), [1]),
}
"""Metric -> the columns of its units that do not depend on what a system says."""


def _runs(records: Records, system: str) -> list[Units]:
    if system not in records.runs:
        raise InputError(f"--system: found {system!r}, expected one of {', '.join(records.runs)}")
    return records.runs[system]


if __name__ == "__main__":
    sys.exit(main())
