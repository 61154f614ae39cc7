"""A stand-in for the MLflow run of a stage, in tests that call the stage's function."""

from typing import Any


class Recorder:
    """Keeps what was logged last, and the losses of a training."""

    def __init__(self) -> None:
        self.metrics: dict[str, Any] = {}
        self.losses: list[float] = []

    def report(self, step: int, metrics: dict[str, float]) -> None:
        self.losses.append(metrics["train/loss"])

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        self.metrics = metrics
