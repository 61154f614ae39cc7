"""What a training reports by step, and how fast its work went.

The reports are kept in the checkpoints, and reported again where a training goes on from one.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertcore.errors import TrainingError

CURVE_POINTS = 100
"""Points of a short training's curve, about."""

Report = Callable[[int, dict[str, float]], None]
"""Called on rank 0 with the number of finished steps and the metrics by their MLflow names."""


def silent(step: int, metrics: dict[str, float]) -> None:
    """A `Report` that nobody reads."""


def report_again(rows: Iterable[Mapping[str, float]], report: Report) -> None:
    """Pass on what was reported before, each row with its `step`."""
    for row in rows:
        report(int(row["step"]), {name: value for name, value in row.items() if name != "step"})


def means(step: int, losses: list[Tensor], norm: Any, rate: float, remedy: str) -> dict[str, float]:
    """What `losses`, of the steps since the last call, and the last gradient were; reading them waits for the device.

    `TrainingError`, which ends with the `remedy`, where one is no number.
    """
    loss, gradient_norm = float(torch.stack(losses).mean()), float(norm)
    if not math.isfinite(loss) or not math.isfinite(gradient_norm):
        raise TrainingError(
            f"step {step}: found loss {loss} and gradient norm {gradient_norm}, expected finite numbers; {remedy}"
        )
    return {"train/loss": loss, "train/gradient_norm": gradient_norm, "train/learning_rate": rate}


_OF_THE_MACHINE = {"train/tokens_per_second", "train/mfu"}
"""Metrics that no two runs have alike."""


class History:
    """Every process keeps it, rank 0 passes it on."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.rows: list[dict[str, float]] = []
        """Each with its `step`."""

    def add(self, step: int, metrics: dict[str, float]) -> None:
        """Report `metrics`."""
        self.rows.append({"step": step, **metrics})
        self._report(step, metrics)

    def restore(self, rows: list[dict[str, float]], *, report: bool) -> None:
        """Go on after `rows`, which are reported again where `report` is set."""
        self.rows = rows
        if report:
            report_again(rows, self._report)

    def evaluated(self, step: int) -> bool:
        """Whether held-out metrics of `step` are there: a resume may come from a step whose evaluation was cut."""
        return any(row["step"] == step and "eval/loss" in row for row in self.rows[-2:])

    def last(self, name: str) -> dict[str, float]:
        """The metrics that came last with `name`; empty where there are none yet."""
        row = next((row for row in reversed(self.rows) if name in row), {})
        return {each: value for each, value in row.items() if each != "step" and each not in _OF_THE_MACHINE}

    @property
    def curves(self) -> list[dict[str, float]]:
        """All rows, without what depends on the machine."""
        return [{name: value for name, value in row.items() if name not in _OF_THE_MACHINE} for row in self.rows]


@dataclass
class Timed:
    """Work, and the seconds it took."""

    tokens: int = 0
    flops: int = 0
    """Of the model; see `training.flops`."""
    seconds: float = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    def add(self, other: "Timed") -> None:
        self.tokens += other.tokens
        self.flops += other.flops
        self.seconds += other.seconds

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds if self.seconds else 0.0
