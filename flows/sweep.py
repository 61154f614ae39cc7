"""Many runs of `pretrain-flow`, each with other parameters and another seed, and one table of what came of them."""

import contextlib
import csv
import json
import math
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterTags,
)
from prefect.client.schemas.responses import OrchestrationResult, SetStateStatus
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import ObjectNotFound, PrefectException, TerminationSignal
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelling, Completed, State

from bertcore.config import suggest
from bertcore.files import replace_file
from flows.devices import stages_at_once
from flows.environment import ROOT, project_environment
from flows.pipeline import FailedStagesError, concluded
from flows.points import at_least_one, points
from flows.progress import HELD_OUT
from flows.trees import snapshot
from tasks.params import flatten
from tasks.reporting.document import NOTHING, Table
from tasks.reporting.rendering import markdown_table

TABLES = ROOT / "sweeps"
"""A table of each sweep, `NAME.csv`, for git."""
POLL = 2.0
"""Seconds between two looks at the runs."""
COMES_BACK = 120.0
"""Seconds in which infra/automations.yaml, where a server has them, begins a run that has crashed again."""


@dataclass
class Trial:
    """One run of the sweep."""

    params: dict[str, Any]
    run: UUID | None = None
    name: str = ""
    outcome: str = "not run"
    metrics: dict[str, float] = field(default_factory=dict)
    """Of its summary, by dotted keys; empty until it has completed."""
    curve: dict[int, float] = field(default_factory=dict)
    """Step of the pre-training -> loss on held-out text, as far as it is known."""
    stopped: str | None = None
    """Why the sweep has stopped it."""


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
            minimize,
            at_least_one("at_once", at_once, "for as many as the machine runs stages"),
            at_least_one("stop_below_median_of", stop_below_median_of, "to stop no run"),
        )
    )


def _sweep(
    chosen: list[dict[str, Any]], metric: str, minimize: bool, at_once: int | None, least: int | None
) -> State[None]:
    name = str(flow_run.name)
    trials = [Trial(point) for point in chosen]
    with get_client(sync_client=True) as client:
        commit = _commit_of_begun(client, name) or snapshot(ROOT)
        get_run_logger().info(f"{len(trials)} runs of pretrain-flow from {commit[:7]}, the best by {metric}")
        try:
            _run_all(client, trials, name, commit, metric, at_once or stages_at_once(), least)
        except BaseException as error:
            _cancel(client, trials)
            status = "KILLED" if isinstance(error, TerminationSignal) else "FAILED"
            with contextlib.suppress(httpx.HTTPError, PrefectException):  # the server may be what has failed
                _conclude(name, _write(trials, name, metric), trials, status)
            raise
    trials.sort(key=lambda trial: trial.metrics.get(metric, math.inf if minimize else -math.inf), reverse=not minimize)
    file = _write(trials, name, metric)
    _conclude(name, file, trials, "FINISHED")
    best = trials[0]
    if metric not in best.metrics:
        raise FailedStagesError(f"{unranked(metric, trials)}; see {file} and the runs themselves")
    return Completed(message=f"{metric} {best.metrics[metric]:.4g} by run {best.name}; all: {file.relative_to(ROOT)}")


def _commit_of_begun(client: SyncPrefectClient, name: str) -> str | None:
    """From which the runs of this sweep have begun that are there already: its process was lost, and begins again."""
    begun = client.read_flow_runs(flow_run_filter=FlowRunFilter(tags=FlowRunFilterTags(all_=[name])))
    ours = (run.parameters for run in begun if run.parameters.get("sweep") == f"{flow_run.id} {name}")
    return next((str(parameters["commit"]) for parameters in ours), None)


def is_unknown(metric: str, trials: list[Trial]) -> bool:
    """Whether runs have completed, and none of them has `metric`."""
    completed = [trial for trial in trials if trial.metrics]
    return bool(completed) and not any(metric in trial.metrics for trial in completed)


def unranked(metric: str, trials: list[Trial]) -> str:
    """Why none of the runs has `metric`."""
    if not is_unknown(metric, trials):
        return "no run of the sweep has completed with a metrics/summary.json"
    known = {key for trial in trials for key in trial.metrics}
    return f"parameter metric: found {metric!r}, which no run that has completed has; {suggest(metric, known)}"


def _run_all(
    client: SyncPrefectClient,
    trials: list[Trial],
    name: str,
    commit: str,
    metric: str,
    at_once: int,
    least: int | None,
) -> None:
    """Keep `at_once` runs going until all have ended, or are stopped because they are worse than `least` others.

    Once one has completed without `metric`, by which they are ranked, no other is started and all are stopped.
    """
    flow_name = f"pretrain-flow/{deployment.name or 'local'}"
    source = client.read_deployment_by_name(flow_name)
    waiting, running = list(trials), list[Trial]()
    while waiting or running:
        while waiting and len(running) < at_once and _started(client, source.id, waiting[0], name, commit):
            running.append(waiting.pop(0))
        time.sleep(POLL)
        if least is not None:
            _stop_the_worst(client, running, trials, least)
        running = [trial for trial in running if not _ended(client, trial, metric)]
        if is_unknown(metric, trials):
            waiting.clear()
            for trial in running:
                _stop(client, trial, f"stopped: a run has completed without {metric}")


def _started(client: SyncPrefectClient, source: UUID, trial: Trial, name: str, commit: str) -> bool:
    """Whether the trial's run has been created. Without an answer it is asked for again, and is the same run."""
    try:
        run = client.create_flow_run_from_deployment(
            source,
            parameters={"params": trial.params, "commit": commit, "sweep": f"{flow_run.id} {name}"},
            tags=[name],
            idempotency_key=f"{flow_run.id} {json.dumps(trial.params, sort_keys=True)}",
        )
    except httpx.HTTPError as error:
        if isinstance(error, httpx.HTTPStatusError) and not error.response.is_server_error:
            raise
        return False
    trial.run, trial.name = run.id, run.name
    return True


def _stop_the_worst(client: SyncPrefectClient, running: list[Trial], trials: list[Trial], least: int) -> None:
    for trial in running:
        with contextlib.suppress(httpx.HTTPError, PrefectException):  # it is asked again
            trial.curve |= _heldout_losses(client, trial)
    for trial in running:
        if reason := behind(trial, trials, least):
            _stop(client, trial, reason)


def _stop(client: SyncPrefectClient, trial: Trial, reason: str) -> None:
    """Cancel the run, once. Without an answer it goes on, until it is to be stopped again."""
    assert trial.run is not None
    if not trial.stopped:
        with contextlib.suppress(httpx.HTTPError, PrefectException):
            answer: OrchestrationResult[None] = client.set_flow_run_state(trial.run, Cancelling(message=reason))
            if answer.status != SetStateStatus.ABORT:  # it has ended meanwhile
                trial.stopped = reason
                get_run_logger().info(f"{trial.name}: {reason}, {trial.params}")


def _heldout_losses(client: SyncPrefectClient, trial: Trial) -> dict[int, float]:
    """As the run's pre-training has said them so far (`flows.progress.HeldOut`)."""
    assert trial.run is not None
    newest = client.read_artifacts(
        artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[f"{HELD_OUT}-pretrain"])),
        flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[trial.run])),
        sort=ArtifactSort.CREATED_DESC,
        limit=1,  # it holds all evaluations so far
    )
    tables = [json.loads(str(artifact.data)) for artifact in newest]
    return {step: loss for table in tables for step, loss in zip(table["step"], table["loss"], strict=True)}


def behind(trial: Trial, trials: list[Trial], least: int) -> str | None:
    """Why the run is to be stopped: at its last evaluation it was worse than the median of `least` other runs or more
    at the same step. None where it was not, or too few have come so far."""
    if not trial.curve:
        return None
    step = max(trial.curve)
    found = [other.curve[step] for other in trials if other is not trial and step in other.curve]
    if len(found) < least or trial.curve[step] <= (median := statistics.median(found)):
        return None
    return f"stopped at step {step}: held-out loss {trial.curve[step]:.4g}, median of {len(found)} others {median:.4g}"


def _ended(client: SyncPrefectClient, trial: Trial, metric: str) -> bool:
    """Whether the run is over; then its outcome and its score are known. Without an answer it is asked again."""
    assert trial.run is not None
    try:
        state = client.read_flow_run(trial.run).state
    except ObjectNotFound:
        trial.outcome = "deleted"
        return True
    except (httpx.HTTPError, PrefectException):
        return False
    if state is None or not state.is_final():
        return False
    if state.is_crashed() and datetime.now(UTC) < state.timestamp + timedelta(seconds=COMES_BACK):
        return False
    trial.outcome = trial.stopped if trial.stopped and state.is_cancelled() else str(state.name)
    if state.is_completed() and state.message:
        trial.metrics = summary(state.message.rpartition(" ")[2])
    get_run_logger().info(f"{trial.name}: {trial.outcome}, {metric} {_shown(trial, metric)}, {trial.params}")
    return True


def summary(branch: str) -> dict[str, float]:
    """The numbers in metrics/summary.json of a run's branch by their dotted keys; empty where it has none."""
    command = ["git", "show", f"{branch}:./metrics/summary.json"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        found = flatten(json.loads(shown.stdout))
    except ValueError:
        return {}
    return {key: float(value) for key, value in found.items() if isinstance(value, int | float)}


def _cancel(client: SyncPrefectClient, trials: list[Trial]) -> None:
    for trial in trials:
        if trial.run is not None and trial.outcome == "not run":
            try:
                client.set_flow_run_state(trial.run, Cancelling())
                trial.outcome = "cancelled"
            except (httpx.HTTPError, PrefectException):  # the others are to end, too
                trial.outcome = "not stopped"


def _write(trials: list[Trial], name: str, metric: str) -> Path:
    """The table, the best run first: as an artifact and as a file."""
    keys = list(dict.fromkeys(key for trial in trials for key in trial.params))
    rows = [
        [
            trial.name or NOTHING,
            *(json.dumps(trial.params.get(key)) for key in keys),
            _shown(trial, metric),
            trial.outcome,
        ]
        for trial in trials
    ]
    header = ["Run", *keys, metric, "Outcome"]
    table = "\n\n".join(markdown_table(Table(header=header, rows=rows, left=("Outcome",), strong=metric)))
    create_markdown_artifact(table, key="sweep", description=f"The runs of {name}, the best first")
    TABLES.mkdir(exist_ok=True)
    file = TABLES / (re.sub(r"[^\w-]+", "-", name) + ".csv")
    with replace_file(file) as beside, beside.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])
    return file


def _shown(trial: Trial, metric: str) -> str:
    return f"{trial.metrics[metric]:.6g}" if metric in trial.metrics else NOTHING


def _conclude(name: str, file: Path, trials: list[Trial], status: str) -> None:
    """Keep the table with the sweep's run in MLflow, tag the runs that were stopped, and end the sweep's so."""
    stopped = json.dumps({str(trial.run): trial.stopped for trial in trials if trial.stopped})
    command = [sys.executable, "-m", "tasks.tracking.sweeps", f"{flow_run.id} {name}", str(file), stopped, status]
    options: dict[str, Any] = {"cwd": ROOT, "env": project_environment(), "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, **options)
    if done.returncode:
        get_run_logger().warning((done.stderr.strip().splitlines() or ["MLflow has no table of the sweep"])[-1])
