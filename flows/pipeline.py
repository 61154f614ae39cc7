"""One run of the pipeline in a tree: the graph of dvc.yaml, one Prefect task per stage, and how a flow run ends."""

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import TerminationSignal
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Completed, Failed, State
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from bertcore.errors import ConfigError
from bertcore.variables import positive
from flows.devices import cuda_devices, stages_at_once
from flows.doctor import DoctorError, examine, raise_for
from flows.environment import END_WITH_WORKER, OWN_STORE, REMOTE, ROOT, STORE, error_among, project_environment
from flows.graph import BusyError, GraphError, Stage, read_graph, select, unchanged
from flows.locks import PIPELINE, HeldError, hold
from flows.remote import RemoteError, remote_url
from flows.room import slots_directory
from flows.stages import RUNNING, check_policy, task_for
from flows.trees import DoneError
from tasks.experiment import PIPELINE_NAME, PIPELINE_RUN
from tasks.link_checks import remove_outdated_links
from tasks.paths import INPUTS
from tasks.processes import checkpoint_grace
from tasks.reporting.document import TABLES, read_tables
from tasks.reporting.rendering import markdown_table

Future = PrefectFuture[Any]

THREADS = cast("TaskRunner[Future]", ThreadPoolTaskRunner(max_workers=64))
"""More than there are ever stages at once: `_run` hands out the room, so that no stage waits in a thread."""

REPORT = "report"
"""The stage whose tables a run shows. A run without it finds those of another one in its tree."""

STARTS = 4
"""How often a run may begin; infra/automations.yaml begins it again whenever it has crashed."""


def concluded(work: Callable[[], State[None]]) -> State[None]:
    """Do the work of a flow; its state, or Failed with one line where it cannot be done.

    A stage below a failed one does not run, an independent one does; the reason is the stages' own error lines, without
    a traceback that would tell nothing more.
    """
    _end_with_worker()
    if flow_run.run_count > STARTS:
        return _failed(
            f"this run has begun {STARTS} times and never came to its end; mend what ended it, then run the deployment "
            "again: what is done is cached"
        )
    try:
        return work()
    except TerminationSignal:
        # Cancellation. Prefect kills this process 30 s after the signal; stages that may take longer have guards, which
        # wait on.
        RUNNING.stop()
        raise
    except DoneError as done:
        get_run_logger().info(str(done))
        return Completed(message=str(done))
    except HeldError as holder:
        return _failed(f"another run does the very same already ({holder}); wait for it or cancel it")
    except (ConfigError, GraphError, DoctorError, RemoteError, FailedStagesError, ValueError) as error:
        return _failed(str(error))


class FailedStagesError(Exception):
    """Stages of the run have failed; their own error lines."""


def bring_up_to_date(
    root: Path, stages: list[str] | None, variables: dict[str, str] | None = None, without: Collection[str] = ()
) -> "Done":
    """Run what is to do in the tree `root`, alone in it. `FailedStagesError` where a stage failed.

    `variables`: of the stages' environment. `without`: stages whose outs lie there as they are meant to be.
    Before the first stage that has something to do, `doctor` looks whether the machine and the tree can do it.
    """
    with _turn(root) as queued:
        selected = select(read_graph(root), stages, without)
        check_policy(selected)
        clean = _unchanged(root, selected, patience=2.0 * checkpoint_grace() if queued else 0.0)
        if name := remove_outdated_links(root):
            get_run_logger().info(f"{name} leads to other files than are linked in {INPUTS}: they are linked anew")
            clean = unchanged(root, selected)
        if (remote := remote_url(ROOT)) and len(clean) < len(selected):
            _consult(remote, root, "pull", *(stage.name for stage in selected if stage.name not in clean))
            clean = unchanged(root, selected)
        if len(clean) < len(selected):
            slots_directory()  # every stage will want it: where it cannot be made, nothing begins
            doctor(root, [stage.name for stage in selected if stage.name not in clean])
        states = _run(root, selected, clean, (variables or {}) | ({REMOTE: remote} if remote else {}))
        if REPORT in states and states[REPORT].is_completed():
            _publish(root / "reports" / TABLES)
        if failed := [_error(name, state) for name, state in states.items() if state.is_failed() or state.is_crashed()]:
            raise FailedStagesError("\n".join(failed))
        return Done({stage.name for stage in selected}, _push(remote, root) if remote else "")


@dataclass(frozen=True)
class Done:
    """What a run has brought up to date."""

    stages: set[str]
    unpushed: str
    """Why the remote lacks a part of it; empty where it does not."""

    def completed(self, branch: str) -> State[None]:
        """The end of a run in a tree of its own, whose results are the git branch."""
        hindered = f"not pushed: {self.unpushed}; " if self.unpushed else ""
        return Completed(message=f"{hindered}results: git branch {branch}")


@contextlib.contextmanager
def _turn(root: Path) -> Iterator[bool]:
    """Alone in the tree, after the run that works there now; whether there was one."""
    queued = False
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold(root / PIPELINE, holder()))
        except HeldError as other:
            get_run_logger().info(f"queued: another run works in this tree ({other}); this one follows it")
            stack.enter_context(hold(root / PIPELINE, holder(), wait=True))
            queued = True
        yield queued


def _unchanged(root: Path, stages: list[Stage], patience: float) -> set[str]:
    """As `unchanged`, once the dvc that a stopped run leaves behind has ended, `patience` seconds from now at most."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return unchanged(root, stages)
        except BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _push(remote: str, root: Path) -> str:
    """Give the remote all that it lacks; what hinders it, which is no reason to leave what was computed where nobody
    finds it: in the user's tree the next run pushes it, in one of its own the same run, begun again."""
    try:
        _consult(remote, root, "push")
    except RemoteError as error:
        get_run_logger().warning(f"not pushed: {error}")
        return str(error)
    return ""


def _consult(remote: str, root: Path, *command: str) -> None:
    """Have `flows.remote` do something in the tree `root`; `RemoteError` with its line where it cannot."""
    get_run_logger().info(f"{command[0]}: {remote}")
    environment = {**project_environment(), REMOTE: remote}
    with RUNNING.start([sys.executable, "-m", "flows.remote", *command], environment, root) as process:
        assert process.stdout is not None
        lines = list(process.stdout)
        status = process.wait()
    if status:
        raise RemoteError(error_among(lines, status))


def holder() -> str:
    return f"{flow_run.name}, process {os.getpid()}"


def _failed(reason: str) -> State[None]:
    """The end of the flow run. In the log too: `prefect deployment run --watch` shows that, and of the state its
    name."""
    get_run_logger().error(reason)
    return Failed(message=reason)


@task(name="doctor", task_run_name="doctor", cache_policy=NO_CACHE, persist_result=False, retries=0)
def doctor(root: Path, stages: list[str]) -> None:
    """Log every finding of `flows.doctor` about `stages` in the tree `root`. DoctorError, with the remedies, where
    anything fails."""
    findings = examine({**project_environment(), **_of_the_tree(root)}, root, stages)
    log = get_run_logger()
    for finding in findings:
        say = log.info if finding.level == "ok" else log.warning
        for line in finding.lines():
            say(line)
    raise_for(findings)


def _run(root: Path, stages: list[Stage], clean: set[str], variables: dict[str, str]) -> dict[str, State[Any]]:
    """Submit each stage when its parents are done and there is room for one more; the final state of each.

    `clean`: those that DVC would skip. `variables`: of the stages' environment.
    """
    free = stages_at_once()
    futures: dict[str, Future] = {}
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    finished: set[str] = set()
    waiting = list(stages)
    while waiting or len(finished) < len(futures):
        for stage in [stage for stage in waiting if finished.issuperset(stage.upstream)]:
            if not free:
                break
            waiting.remove(stage)
            free -= 1
            future = task_for(stage).submit(
                stage.name,
                root=root,
                unchanged=stage.name in clean,
                slots=_slots(stage),
                environment={**_variables(root), **variables},
                timeout=stage.meta.get("timeout_seconds"),
                wait_for=[futures[name] for name in stage.upstream],
            )
            futures[stage.name] = future
            future.add_done_callback(lambda _, name=stage.name: done.put(name))
        name = done.get()
        finished.add(name)
        free += 1
    for future in futures.values():
        future.wait()
    return {name: future.state for name, future in futures.items()}


def _slots(stage: Stage) -> int:
    """How much of the machine's room the stage takes: with `meta: devices: all`, a slot for each training process."""
    if stage.meta.get("devices") == "all" and (devices := cuda_devices()):
        return positive("BERTCORE_PROCESSES") or len(devices)
    return 1


def _variables(root: Path) -> dict[str, str]:
    """What the stages' processes are told beyond the environment: their pipeline run, and where runs are kept."""
    run = {PIPELINE_RUN: str(flow_run.id), PIPELINE_NAME: str(flow_run.name)}
    return {**run, **_of_the_tree(root)}


def _of_the_tree(root: Path) -> dict[str, str]:
    """What a worktree has in common with the user's tree: MLflow's store."""
    if root == ROOT or os.environ.get(STORE):
        return {}
    return {STORE: OWN_STORE}


def _error(name: str, state: State[Any]) -> str:
    """The exception's own words; the state's message would put Prefect's before them."""
    try:
        state.result()
    except Exception as error:  # whatever the task raised is what the user must read
        return str(error)
    return f"stage {name}: {state.message}"


def _publish(report: Path) -> None:
    """The tables of the report as an artifact, each section's below its title."""
    blocks: list[str] = []
    for section, table in read_tables(report):
        heading = f"## {section}"
        blocks += [*([] if heading in blocks else [heading]), *markdown_table(table)]
    if blocks:
        create_markdown_artifact("\n\n".join(blocks), key="results", description="The tables of reports/report.md")


def _end_with_worker() -> None:
    """End when the worker ends, where the command that started it asked for it: an orphaned run would go on unseen."""
    if not os.environ.get(END_WITH_WORKER):
        return
    worker = os.getppid()

    def watch() -> None:
        while os.getppid() == worker:
            time.sleep(1.0)
        RUNNING.stop()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
