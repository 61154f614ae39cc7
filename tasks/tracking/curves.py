"""Curves without doubled points: MLflow keeps every point it is given, also the second one of a step."""

import sys

from tasks.tracking import runs
from tasks.tracking.store import reachable
from tasks.tracking.system import SYSTEM

_NO_CURVES = ("eval/heldout_sequences",)
"""The same at every step; metrics/pretrain.json has them."""


class Unreported:
    """Reports to a run what it does not have yet.

    A training that goes on from a checkpoint reports all points before it again, and computes those after it anew. A
    new run gets them all; one that has some of them, because the process that wrote them was killed, gets the others.
    """

    def __init__(self, run: runs.StageRun) -> None:
        self._run = run
        with reachable():
            names = [name for name in run.client.get_run(run.run_id).data.metrics if not name.startswith(SYSTEM)]
            histories = {name: run.client.get_metric_history(run.run_id, name) for name in names}
        self._last = {name: max(point.step for point in points) for name, points in histories.items()}

    def report(self, step: int, metrics: dict[str, float]) -> None:
        """The metrics of a step, of which each name's steps ascend.

        The loss on held-out text is said in a line, too, which a flow shows (`flows.stages`), and by which a sweep may
        stop the training.
        """
        if "eval/loss" in metrics:
            print(f"held-out loss {metrics['eval/loss']:.6g} at step {step}", file=sys.stderr, flush=True)
        curves = {name: value for name, value in metrics.items() if name not in _NO_CURVES}
        new = {name: value for name, value in curves.items() if step > self._last.get(name, -1)}
        if new:
            self._run.report(step, new)
            self._last |= dict.fromkeys(new, step)
