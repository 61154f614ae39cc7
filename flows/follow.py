"""Follow a flow run through Prefect's API until it ends: its stages, their progress, their log lines."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterType,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterFlowRunId,
    LogFilterTimestamp,
)
from prefect.client.schemas.objects import FlowRun, Log, State, TaskRun
from prefect.client.schemas.sorting import LogSort
from prefect.types._datetime import create_datetime_instance
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

POLL, LATER = 0.5, 2.0
"""Seconds between two rounds of questions to the server, in a run's first half minute and from its third minute on: the
answers take processor time from the training."""
SETTLE = 5.0
"""Seconds that the stages' last states may take to arrive: Prefect records task states through its events."""
PATIENCE = 20.0
"""Seconds a run may lie unclaimed before another worker is started: a killed one counts as online for a while."""
SILENCE = 30.0
"""Seconds without an answer of the server that a restart or a busy database explains; longer ones are told."""

LOG_PAGE = 200
"""Lines per answer, Prefect's own limit."""
OVERLAP = timedelta(seconds=10)

UNCLAIMED = {"Scheduled", "Late"}
STATES = {"Completed": "ran", "Cached": "cached", "Failed": "failed", "Crashed": "failed", "Cancelled": "stopped"}
COLOURS = {"ran": "green", "cached": "cyan", "failed": "red", "running": "yellow"}
ENGINE_LINES = re.compile(
    r"Finished in state|Task run failed with|Beginning flow run|View at |Worker '.*' submitting|Flow run '.*' submitted"
    r"|Running \d+ deployment pull step|Executing deployment step|Deployment step|All deployment steps|Engine execution"
)
"""Prefect's own account of what the table of stages already shows."""


@dataclass
class Watched:
    """What is known of the run now."""

    run: FlowRun
    stages: dict[UUID, TaskRun] = field(default_factory=dict)
    progress: dict[UUID, str] = field(default_factory=dict)

    @property
    def state(self) -> State:
        assert self.run.state is not None, "a run that was made has a state"
        return self.run.state

    def ordered(self) -> list[TaskRun]:
        return sorted(self.stages.values(), key=lambda stage: stage.created or datetime.max.replace(tzinfo=UTC))


class Follower:
    """Shows one flow run on a terminal: a table that redraws itself, or plain lines where nobody would see it."""

    def __init__(self, client: SyncPrefectClient, run_id: UUID, console: Console) -> None:
        self._client, self._run_id, self._console = client, run_id, console
        self._seen: set[UUID] = set()
        self._heard = time.monotonic()
        self._is_silent = False
        self._since: Any = create_datetime_instance(datetime.fromtimestamp(0, UTC))
        self.watched = Watched(client.read_flow_run(run_id))

    def follow(self, check: Callable[[], None], unclaimed: Callable[[], None]) -> Watched:
        """Show the run until it is over.

        `check` is called in every round and may raise; `unclaimed` once, if no worker takes the run within PATIENCE.
        """
        began = started = time.monotonic()
        # Where the output is a file or a pipe, a transient table shows nothing.
        with Live(console=self._console, transient=True) as live:
            while not self.watched.state.is_final():
                if self.watched.state.name in UNCLAIMED and time.monotonic() - started > PATIENCE:
                    started = float("inf")
                    unclaimed()
                check()
                self._poll(live)
                time.sleep(pause(time.monotonic() - began))
            deadline = time.monotonic() + SETTLE
            while time.monotonic() < deadline and not self._settled():
                self._poll(live)
                time.sleep(POLL / 2)
            self._poll(live)
        return self.watched

    def _settled(self) -> bool:
        states = [stage.state for stage in self.watched.stages.values()]
        return bool(states) and all(state and (state.is_final() or state.name == "NotReady") for state in states)

    def _poll(self, live: Live) -> None:
        """One round of questions. A server that does not answer for a moment is asked again in the next."""
        try:
            self.watched.run = self._client.read_flow_run(self._run_id)
            only = FlowRunFilter(id=FlowRunFilterId(any_=[self._run_id]))
            for stage in self._client.read_task_runs(flow_run_filter=only):
                self.watched.stages[stage.id] = stage
            self._read_progress()
            self._print_logs()
        except httpx.TransportError:
            return self._tell_of_silence()
        except httpx.HTTPStatusError as error:
            if error.response.is_client_error:
                raise
            return self._tell_of_silence()  # the server's database is away
        self._heard, self._is_silent = time.monotonic(), False
        live.update(status_table(self.watched))

    def _tell_of_silence(self) -> None:
        """Once: without the server no further stage begins, and its end would not be seen."""
        if not self._is_silent and time.monotonic() - self._heard > SILENCE:
            self._is_silent = True
            self._console.print(
                f"The Prefect server at {self._client.api_url} has not answered for {SILENCE:.0f} s, and without it no "
                "further stage begins. Start it again where it ran, or end this with Ctrl-C: the same command goes on "
                "from what is done.",
                markup=False,
                soft_wrap=True,
            )

    def _read_progress(self) -> None:
        only = ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=[self._run_id]), type=ArtifactFilterType(any_=["progress"])
        )
        for artifact in self._client.read_artifacts(artifact_filter=only):
            if artifact.task_run_id is not None:
                self.watched.progress[artifact.task_run_id] = artifact.description or f"{artifact.data}%"

    def _print_logs(self) -> None:
        """Log lines come in batches and not in order: ask again for the last seconds, print what is new."""
        filters = LogFilter(
            flow_run_id=LogFilterFlowRunId(any_=[self._run_id]), timestamp=LogFilterTimestamp(after_=self._since)
        )
        offset = 0
        while page := self._client.read_logs(filters, limit=LOG_PAGE, offset=offset, sort=LogSort.TIMESTAMP_ASC):
            for line in page:
                if line.id not in self._seen:
                    self._seen.add(line.id)
                    self._print(line)
                self._since = max(self._since, line.timestamp - OVERLAP)
            offset += LOG_PAGE
            if len(page) < LOG_PAGE:
                break

    def _print(self, line: Log) -> None:
        if ENGINE_LINES.match(line.message):
            return
        stage = self.watched.stages.get(line.task_run_id) if line.task_run_id else None
        name = stage.name if stage else "pipeline"
        text = line.message.partition("\nTraceback")[0]
        self._console.print(Text(f"{name:>20} │ {text}"), soft_wrap=True)


def pause(elapsed: float) -> float:
    """Seconds until the next round in a run that is followed for `elapsed` seconds."""
    return min(LATER, max(POLL, elapsed / 60))


def outcome(stage: TaskRun) -> str:
    """What became of a stage in one word: ran, cached, failed, stopped, running, or not run."""
    state = stage.state
    if state is None or state.name in {"NotReady", "Pending", "Scheduled"}:
        return "not run"
    return STATES.get(state.name or "", "running" if not state.is_final() else "failed")


def status_table(watched: Watched) -> Table:
    """The stages so far: outcome, seconds, and how far the running ones are."""
    table = Table(box=None, pad_edge=False)
    for column in ("stage", "", "seconds", ""):
        table.add_column(column, justify="right" if column == "seconds" else "left", no_wrap=True)
    for stage in watched.ordered():
        word = outcome(stage)
        progress = watched.progress.get(stage.id, "") if word == "running" else ""
        seconds = "" if word in {"not run", "cached"} else f"{_seconds(stage):.1f}"
        table.add_row(stage.name, Text(word, style=COLOURS.get(word, "default")), seconds, progress)
    if not watched.stages:
        table.add_row("waiting", watched.state.name or "", "", "")
    return table


def _seconds(stage: TaskRun) -> float:
    """From the first start to the end or to now, retries and the waits between them included."""
    if stage.start_time is None:
        return 0.0
    return ((stage.end_time or datetime.now(UTC)) - stage.start_time).total_seconds()
