"""Many runs of `pretrain-flow`, each with other parameters and another seed, and one table of what came of them."""

import contextlib
import csv
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import httpx
from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectException, TerminationSignal
from prefect.runtime import deployment, flow_run
from prefect.states import Completed, State

from bertcore.files import replace_file
from flows.devices import stages_at_once
from flows.environment import ROOT, complaint, run_to_end
from flows.pipeline import FailedStagesError, concluded
from flows.points import at_least_one, points
from flows.trees import snapshot
from flows.trials import Trial, Trials
from tasks.reporting.document import NOTHING, Table
from tasks.reporting.rendering import markdown_table

TABLES = ROOT / "sweeps"
"""A table of each sweep, `NAME.csv`, for git."""


@flow(name="sweep-flow", persist_result=False)
def sweep_flow(
    params: dict[str, Any],
    seeds: list[int] | None = None,
    draws: int | None = None,
    draw_seed: int = 0,
    metric: str = "pretrain.mlm_loss",
    minimize: bool = True,
    at_once: int | None = None,
    stop_below_median_of: int | None = None,
) -> State[None]:
    """Run the pipeline for every combination of `params`, or for some drawn at random, with every one of `seeds`.

    `params`: dotted key of params.yaml -> a list of values, or {"min": a, "max": b} with "log": true for a draw that is
    even in the logarithm. `seeds`: of the pre-training (pretrain.seed); None: that of params.yaml. `draws`: how many
    different combinations are drawn, at most, by `draw_seed`; None: all, for which every key needs a list. `metric`: a
    dotted key of metrics/summary.json by which runs are ranked. `at_once`: runs at the same time; None: as many as the
    machine runs stages (its room is divided among them). `stop_below_median_of`: with a number N, a run is stopped
    at an evaluation of its pre-training at which its loss on held-out text is larger than the median of that of N or
    more other runs at the same step; None: every run goes to its end.
    Every run is one of `pretrain-flow`, begins from the tracked files as they stand when the sweep begins, and has a
    branch of its own. The table becomes an artifact, sweeps/NAME.csv and a file of the sweep's run in MLflow, below
    which the runs stand. Begun again after its process was lost, it goes on with its runs.
    """
    return concluded(
        lambda: _sweep(
            points(params, seeds, draws, draw_seed),
            metric,
            minimize=minimize,
            at_once=at_least_one("at_once", at_once, "for as many as the machine runs stages"),
            least=at_least_one("stop_below_median_of", stop_below_median_of, "to stop no run"),
        )
    )


def _sweep(
    chosen: list[dict[str, Any]], metric: str, *, minimize: bool, at_once: int | None, least: int | None
) -> State[None]:
    with get_client(sync_client=True) as client:
        runs = Trials(client, flow_run.id, str(flow_run.name), metric, [Trial(point) for point in chosen])
        commit = runs.commit() or snapshot(ROOT)
        get_run_logger().info(f"{len(runs.trials)} runs of pretrain-flow from {commit[:7]}, the best by {metric}")
        try:
            of = client.read_deployment_by_name(f"pretrain-flow/{deployment.name or 'local'}")
            runs.run(of.id, commit, at_once or stages_at_once(), least)
        except BaseException as error:
            runs.cancel()
            status = "KILLED" if isinstance(error, TerminationSignal) else "FAILED"
            with contextlib.suppress(httpx.HTTPError, PrefectException):  # the server may be what has failed
                _conclude(runs, _write(runs), status)
            raise
    runs.trials.sort(
        key=lambda trial: trial.metrics.get(metric, math.inf if minimize else -math.inf), reverse=not minimize
    )
    file, best = _write(runs), runs.trials[0]
    _conclude(runs, file, "FINISHED" if metric in best.metrics else "FAILED")
    if metric not in best.metrics:
        raise FailedStagesError(f"{runs.unranked()}; see {file} and the runs themselves")
    return Completed(message=f"{metric} {best.metrics[metric]:.4g} by run {best.name}; all: {file.relative_to(ROOT)}")


def _write(runs: Trials) -> Path:
    """The table, the runs as they stand: as an artifact and as a file."""
    keys = list(dict.fromkeys(key for trial in runs.trials for key in trial.params))
    rows = [
        [
            trial.name or NOTHING,
            *(json.dumps(trial.params.get(key)) for key in keys),
            runs.shown(trial),
            trial.outcome,
        ]
        for trial in runs.trials
    ]
    header = ["Run", *keys, runs.metric, "Outcome"]
    table = "\n\n".join(markdown_table(Table(header=header, rows=rows, left=("Outcome",), strong=runs.metric)))
    create_markdown_artifact(table, key="sweep", description=f"The runs of {runs.name}, the best first")
    TABLES.mkdir(exist_ok=True)
    file = TABLES / (re.sub(r"[^\w-]+", "-", runs.name) + ".csv")
    with replace_file(file) as beside, beside.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])
    return file


def _conclude(runs: Trials, file: Path, status: str) -> None:
    """Keep the table with the sweep's run in MLflow, tag the runs that were stopped, and end the sweep's so."""
    stopped = json.dumps({str(trial.run): trial.stopped for trial in runs.trials if trial.stopped})
    done = run_to_end([sys.executable, "-m", "tasks.tracking.sweeps", runs.label, str(file), stopped, status], ROOT)
    if done.returncode:
        get_run_logger().warning(f"MLflow has no table of the sweep: {complaint(done)}")
