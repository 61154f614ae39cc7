"""The runs of a sweep on the Prefect server: begun, followed, scored and stopped."""

import contextlib
import json
import statistics
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import httpx
from prefect import get_run_logger
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import OrchestrationResult, SetStateStatus
from prefect.client.schemas.sorting import ArtifactSort, FlowRunSort
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.states import Cancelled, Cancelling

from bertcore.config import suggest
from flows.environment import ROOT, run_to_end
from flows.progress import HELD_OUT
from tasks.params import flatten
from tasks.reporting.document import NOTHING

_PAGE = 200
"""Runs that a server shows at once."""
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


@dataclass(frozen=True)
class Trials:
    """All runs of one sweep, which are ranked by one metric."""

    client: SyncPrefectClient
    sweep: str
    """The id of the sweep's own run."""
    name: str
    """Of the sweep, and the tag of its runs."""
    metric: str
    """A dotted key of metrics/summary.json."""
    trials: list[Trial]

    @property
    def label(self) -> str:
        """The sweep for its runs, which MLflow shows below it."""
        return f"{self.sweep} {self.name}"

    def commit(self) -> str | None:
        """From which the runs of this sweep have begun that are there already: its process was lost, and begins again.
        None where there are none."""
        return next((str(run.parameters["commit"]) for run in self._begun()), None)

    def _begun(self) -> list[FlowRun]:
        tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[self.name]))
        found: list[FlowRun] = []
        for offset in count(step=_PAGE):
            found += self.client.read_flow_runs(
                flow_run_filter=tagged, sort=FlowRunSort.ID_DESC, limit=_PAGE, offset=offset
            )
            if len(found) < offset + _PAGE:
                break
        return [run for run in found if run.parameters.get("sweep") == self.label]

    def run(self, deployment: UUID, commit: str, at_once: int, least: int | None) -> None:
        """Keep `at_once` runs of `deployment` going until all have ended, or are stopped because they are worse than
        `least` others.

        Once one has completed without the metric, no other is started and all are stopped.
        """
        waiting, running = list(self.trials), list[Trial]()
        while waiting or running:
            while waiting and len(running) < at_once and self.start(waiting[0], deployment, commit):
                running.append(waiting.pop(0))
            time.sleep(POLL)
            if least is not None:
                self._stop_the_worst(running, least)
            running = [trial for trial in running if not self.ended(trial)]
            if self._metric_is_unknown():
                self._find_unanswered()
                running += [trial for trial in waiting if trial.run is not None]
                waiting.clear()
                for trial in running:
                    self.stop(trial, f"stopped: a run has completed without {self.metric}")

    def start(self, trial: Trial, deployment: UUID, commit: str) -> bool:
        """Whether the trial's run has been created. Without an answer it is asked for again, and is the same run."""
        try:
            run = self.client.create_flow_run_from_deployment(
                deployment,
                parameters={"params": trial.params, "commit": commit, "sweep": self.label},
                tags=[self.name],
                idempotency_key=f"{self.sweep} {json.dumps(trial.params, sort_keys=True)}",
            )
        except httpx.HTTPError as error:
            if isinstance(error, httpx.HTTPStatusError) and not error.response.is_server_error:
                raise
            return False
        trial.run, trial.name = run.id, run.name
        return True

    def _find_unanswered(self) -> None:
        """Runs that were created, but whose creation was not answered."""
        with contextlib.suppress(httpx.HTTPError, PrefectException):
            for run in self._begun():
                for trial in self.trials:
                    if trial.run is None and trial.params == run.parameters["params"]:
                        trial.run, trial.name = run.id, run.name

    def _stop_the_worst(self, running: list[Trial], least: int) -> None:
        for trial in running:
            with contextlib.suppress(httpx.HTTPError, PrefectException):  # it is asked again
                trial.curve |= self._heldout_losses(trial)
        for trial in running:
            if reason := behind(trial, self.trials, least):
                self.stop(trial, reason)

    def stop(self, trial: Trial, reason: str) -> None:
        """Cancel the run, once. Without an answer it goes on, until it is to be stopped again."""
        assert trial.run is not None
        if not trial.stopped:
            with contextlib.suppress(httpx.HTTPError, PrefectException):
                if self._is_cancelling(trial.run, reason):
                    trial.stopped = reason
                    get_run_logger().info(f"{trial.name}: {reason}, {trial.params}")

    def _heldout_losses(self, trial: Trial) -> dict[int, float]:
        """As the run's pre-training has said them so far (`flows.progress.HeldOut`)."""
        assert trial.run is not None
        newest = self.client.read_artifacts(
            artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[f"{HELD_OUT}-pretrain"])),
            flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[trial.run])),
            sort=ArtifactSort.CREATED_DESC,
            limit=1,  # it holds all evaluations so far
        )
        tables = [json.loads(str(artifact.data)) for artifact in newest]
        return {step: loss for table in tables for step, loss in zip(table["step"], table["loss"], strict=True)}

    def ended(self, trial: Trial) -> bool:
        """Whether the run is over; then its outcome and its score are known. Without an answer it is asked again."""
        assert trial.run is not None
        try:
            state = self.client.read_flow_run(trial.run).state
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
        get_run_logger().info(f"{trial.name}: {trial.outcome}, {self.metric} {self.shown(trial)}, {trial.params}")
        return True

    def cancel(self) -> None:
        """All that have begun and not ended."""
        self._find_unanswered()
        for trial in self.trials:
            if trial.run is not None and trial.outcome == "not run":
                try:
                    self._cancel(trial, trial.run)
                except (httpx.HTTPError, PrefectException):  # the others are to end, too
                    trial.outcome = "not stopped"

    def _cancel(self, trial: Trial, run: UUID) -> None:
        if not self._is_cancelling(run):
            if self.ended(trial):
                return
            self.client.set_flow_run_state(run, Cancelled(), force=True)  # it has crashed, and would be begun again
        trial.outcome = "cancelled"

    def _is_cancelling(self, run: UUID, reason: str | None = None) -> bool:
        """Ask for it; False where the run has ended meanwhile."""
        answer: OrchestrationResult[None] = self.client.set_flow_run_state(run, Cancelling(message=reason))
        return answer.status != SetStateStatus.ABORT

    def shown(self, trial: Trial) -> str:
        """The trial's score, for a table."""
        return f"{trial.metrics[self.metric]:.6g}" if self.metric in trial.metrics else NOTHING

    def _metric_is_unknown(self) -> bool:
        """Whether runs have completed, and none of them has the metric."""
        completed = [trial for trial in self.trials if trial.metrics]
        return bool(completed) and not any(self.metric in trial.metrics for trial in completed)

    def unranked(self) -> str:
        """Why none of the runs has the metric."""
        if not self._metric_is_unknown():
            return "no run of the sweep has completed with a metrics/summary.json"
        known = {key for trial in self.trials for key in trial.metrics}
        found = f"parameter metric: found {self.metric!r}, which no run that has completed has"
        return f"{found}; {suggest(self.metric, known)}"


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


def summary(branch: str) -> dict[str, float]:
    """The numbers in metrics/summary.json of a run's branch by their dotted keys; empty where it has none."""
    shown = run_to_end(["git", "show", f"{branch}:./metrics/summary.json"], ROOT)
    try:
        found = flatten(json.loads(shown.stdout))
    except ValueError:
        return {}
    return {key: float(value) for key, value in found.items() if isinstance(value, int | float)}
