"""What is concluded from several runs: the choice of a setting on dev, the median over the seeds, and the spread.

No number here is the best of several seeds: a setting is chosen by its median over all of them, and what is reported
of the chosen one is again the median, beside the smallest, the largest and the quartiles.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertcore.finetune.config import GRID, RunConfig


@dataclass(frozen=True, kw_only=True)
class Run:
    """The scores of one run."""

    task: RunConfig
    metrics: dict[str, dict[str, float]]
    """Split -> metric -> value."""
    best_epoch: int | None
    """Counted from 1, where it was chosen on dev."""
    settled: dict[str, float]
    """What was tuned on dev after the training."""

    def row(self) -> dict[str, Any]:
        """As it is written down."""
        chosen = {} if self.best_epoch is None else {"best_epoch": self.best_epoch}
        fields = {name: getattr(self.task, name) for name in (*GRID, "seed")}
        return {**fields, **chosen, **self.settled, "scores": self.metrics}


def median_run(runs: Sequence[Run], metric: str) -> int:
    """The place of the run with the median of `metric` on dev: of an even number the lower one, of equals the first."""
    scores = [run.metrics["dev"][metric] for run in runs]
    return scores.index(statistics.median_low(scores))


def best_setting(settings: Sequence[Sequence[Run]], metric: str) -> int:
    """The place of the setting whose runs have the highest median of `metric` on dev, the first of equals."""
    medians = [statistics.median(run.metrics["dev"][metric] for run in runs) for runs in settings]
    return medians.index(max(medians))


def medians(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Split -> metric -> median over the runs."""
    return {split: {name: each["median"] for name, each in metrics.items()} for split, metrics in spread(runs).items()}


def spread(runs: Sequence[Run]) -> dict[str, dict[str, dict[str, float]]]:
    """Split -> metric -> `min`, `lower_quartile`, `median`, `upper_quartile` and `max` over the runs, the quartiles
    linear between neighbours."""
    return {
        split: {metric: _five([run.metrics[split][metric] for run in runs]) for metric in metrics}
        for split, metrics in runs[0].metrics.items()
    }


def _five(values: Sequence[float]) -> dict[str, float]:
    names = ("min", "lower_quartile", "median", "upper_quartile", "max")
    return dict(zip(names, np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist(), strict=True))
