"""One stage as one Prefect task: a `dvc repro --single-item` whose output, progress and end Prefect sees."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from logging import Logger, LoggerAdapter
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Cancelled, Completed, State

from bertcore.errors import BAD_INPUT, INTERRUPTED, STOPPED
from flows.environment import REMOTE, project_environment
from flows.graph import Stage, busy, repro_command
from flows.guard import guarded
from flows.progress import Bar, HeldOut
from flows.room import StoppedWaitingError, room
from tasks.processes import checkpoint_grace

Log = Logger | LoggerAdapter[Any]

PROGRESS = re.compile(r"^(\w.*?)\s+(\d+|\?)% \d+(?:/\d+)?(?=\s|$)")
"""A stage's progress line, `masked copies  37% 296/800 …`: its name, per cent done (a question mark where nobody knows
of how much), the count, then whatever a person wants to know."""

EVALUATED = re.compile(r"^held-out loss (\S+) at step (\d+)$")
"""What a training says after each evaluation (`tasks.tracking.curves`)."""

SKIPPED = re.compile(r"^Stage '.*' (?:didn't change, skipping$|is cached - skipping run)")
FAILED_COMMAND = re.compile(r"^ERROR: failed to reproduce .* exited with (\d+)$")
DVC_CHATTER = re.compile(r"^(?:To track the changes|To enable auto staging|Use `dvc push`|\s+(?:git|dvc) )")

LOG_EVERY = 10.0
"""Seconds between two progress lines in the log; the artifact gets one each second."""


class StageError(Exception):
    """The stage's own error, in the words that it printed."""


class FinalStageError(StageError):
    """A failure that a second attempt would not mend: bad input, a stopped stage, another dvc in this tree."""


class _Running:
    """The processes of the stages that run now. One flow run per process, so one of these per process."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._processes: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def start(self, command: list[str], environment: dict[str, str], root: Path) -> Iterator["subprocess.Popen[str]"]:
        """The command under a guard; whatever is left of it is killed when the block ends."""
        with self._lock:
            if self.stopping.is_set():
                raise FinalStageError("the run is being stopped")
            process = guarded(
                command,
                stop_signal="SIGINT",
                grace=checkpoint_grace(),
                cwd=root,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                errors="replace",
            )
            self._processes.add(process)
        try:
            yield process
        finally:
            _signal(process, signal.SIGKILL)
            process.wait()
            with self._lock:
                self._processes.discard(process)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def stop(self) -> None:
        """Ask every running stage to stop and to write its checkpoint; kill what is left after its grace."""
        with self._lock:
            self.stopping.set()
            processes = list(self._processes)
        _end(processes)


RUNNING = _Running()


def _end(processes: list["subprocess.Popen[str]"]) -> None:
    """SIGINT to each group: dvc ignores it and waits for the stage, which stops; then it records nothing."""
    for process in processes:
        _signal(process, signal.SIGINT)
    deadline = time.monotonic() + checkpoint_grace()
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)


def _signal(process: "subprocess.Popen[str]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _worth_retrying(_task: Any, _task_run: Any, state: State[Any]) -> bool:
    return not RUNNING.stopping.is_set() and not isinstance(state.result(raise_on_failure=False), FinalStageError)


@task(cache_policy=NO_CACHE, persist_result=False, retry_condition_fn=_worth_retrying)
def run_stage(
    name: str,
    *,
    root: Path,
    unchanged: bool,
    slots: int,
    environment: dict[str, str],
    timeout: float | None,
) -> State[Any]:
    """Bring one stage of the tree `root` up to date with `dvc repro --single-item`.

    `unchanged`: DVC has already said that it would skip the stage. `slots`: how much of the machine's room it waits for
    and takes while it runs. `environment`: variables added for this stage. `timeout`: seconds after which it is asked
    to stop. Returns Completed, named Cached when DVC had nothing to do, or Cancelled when the run is being stopped;
    raises StageError with the stage's own error line.
    """
    log = get_run_logger()
    if unchanged:
        return _cached(name, log)
    try:
        with room(slots, RUNNING.stopping, log.info) as share:
            return _repro(name, root, {**project_environment(), **share, **environment}, timeout, log)
    except StoppedWaitingError:
        return _stopped(name)


def _repro(name: str, root: Path, environment: dict[str, str], timeout: float | None, log: Log) -> State[Any]:
    command = repro_command(name, root)
    if environment.get(REMOTE):
        command = [sys.executable, "-m", "flows.remote", "stage", name]
    output = _Output(name, log)
    with RUNNING.start(command, environment, root) as process:
        timer = threading.Timer(timeout, _end, [[process]]) if timeout else None
        if timer:
            timer.start()
        assert process.stdout is not None
        started = time.monotonic()
        output.follow(process.stdout)
        status = process.wait()
        late = timer is not None and time.monotonic() - started >= timer.interval
        if timer:
            timer.cancel()
    if status == 0:
        return _cached(name, log) if output.skipped else Completed()
    if RUNNING.stopping.is_set():
        return _stopped(name)
    if late:
        raise FinalStageError(f"stage {name} was stopped after {timeout:g} s, its meta.timeout_seconds in dvc.yaml")
    raise output.failure(status)


def _stopped(name: str) -> State[Any]:
    return Cancelled(message=f"stage {name} was stopped; run the pipeline again to go on where it was")


def _cached(name: str, log: Log) -> State[Any]:
    log.info("unchanged, nothing to do")
    return Completed(name="Cached", message=f"stage {name} is up to date in dvc.lock")


def task_for(stage: Stage) -> Any:
    """`run_stage` under the stage's name with the runtime policy of its `meta`: retries, retry_delay_seconds."""
    retries = stage.meta.get("retries", 0)
    delay = stage.meta.get("retry_delay_seconds", 5)
    # Each further attempt waits twice as long.
    delays = [delay * 2**attempt for attempt in range(retries)]
    name = stage.name
    return run_stage.with_options(name=name, task_run_name=name, retries=retries, retry_delay_seconds=delays)


def check_policy(stages: Iterable[Stage]) -> None:
    """`ValueError` for the first `meta` of a stage that says nothing which `run_stage` could do."""
    for stage in stages:
        for key, expected in (("retries", int), ("retry_delay_seconds", int | float), ("timeout_seconds", int | float)):
            value = stage.meta.get(key, 0)
            if not isinstance(value, expected) or isinstance(value, bool) or value < 0:
                what = "an integer" if expected is int else "a number of seconds"
                raise ValueError(f"dvc.yaml: {stage.name}: meta.{key}: found {value!r}, expected {what}, 0 or more")


class _Output:
    """The lines of one `dvc repro`: into the log, progress into an artifact, the end of them kept for the error."""

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self.skipped = False
        self._log = log
        self._tail: deque[str] = deque(maxlen=20)
        self._status: int | None = None
        self._bar, self._heldout = Bar(name), HeldOut(name)
        self._shown = self._logged = float("-inf")

    def follow(self, lines: Iterable[str]) -> None:
        for raw in lines:
            line = raw.rstrip()
            if not line:
                continue
            if SKIPPED.match(line):
                self.skipped = True
            elif failed := FAILED_COMMAND.match(line):
                self._status = int(failed[1])
            elif progress := PROGRESS.match(line):
                self._progress(None if progress[2] == "?" else min(100, int(progress[2])), line)
            elif not DVC_CHATTER.match(raw):
                if evaluated := EVALUATED.match(line):
                    self._heldout.add(int(evaluated[2]), float(evaluated[1]))
                self._log.info(line)
                self._tail.append(line)
        self._bar.close()
        self._heldout.close()

    def failure(self, status: int) -> StageError:
        """The exception for an attempt that ended with `status`, dvc's own, which hides the stage's."""
        stage_status = self._status if self._status is not None else status
        if stage_status in (STOPPED, INTERRUPTED):
            return FinalStageError(f"stage {self.name} was stopped; run the pipeline again to go on where it was")
        kind = FinalStageError if stage_status == BAD_INPUT or busy(self._tail) else StageError
        return kind(f"stage {self.name}: {self._said() or f'exit status {stage_status}'}")

    def _said(self) -> str:
        """Who else works here, or the stage's own `error:` line, else a traceback's last line, else the last lines."""
        if holder := busy(self._tail):
            return holder
        lines = [line for line in self._tail if not line.startswith(("Running stage", "> "))]
        for line in reversed(lines):
            if line.lower().startswith("error:"):
                return line
        return "\n".join(lines[-1:] if any(line.startswith("Traceback") for line in lines) else lines[-5:])

    def _progress(self, percent: int | None, line: str) -> None:
        now = time.monotonic()
        if now - self._logged >= LOG_EVERY or percent == 100:
            self._logged = now
            self._log.info(line)
        if percent is not None and (now - self._shown >= 1.0 or percent == 100):
            self._shown = now
            self._bar.show(percent, line)
