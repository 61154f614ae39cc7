"""The pipeline of dvc.yaml as a Prefect flow: the same graph, one task per stage."""

import os
import queue
import threading
import time
from pathlib import Path
from typing import Any, cast

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import TerminationSignal
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Completed, Failed, State
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.devices import cuda_devices, stages_at_once
from flows.doctor import DoctorError, examine, raise_for
from flows.environment import ROOT, project_environment
from flows.graph import GraphError, Stage, read_graph, select, unchanged
from flows.locks import PIPELINE, HeldError, hold
from flows.stages import RUNNING, task_for
from tasks.reporting.document import TABLES, read_tables
from tasks.reporting.rendering import markdown_table

Future = PrefectFuture[Any]

THREADS = cast("TaskRunner[Future]", ThreadPoolTaskRunner(max_workers=64))
"""More than there are ever stages at once: `_run` hands out the room, so that no stage waits in a thread."""


@flow(name="pretrain-flow", task_runner=THREADS, persist_result=False)
def pretrain_flow(stages: list[str] | None = None) -> State[None]:
    """Bring the stages of dvc.yaml up to date, each as one task run, independent ones at the same time.

    `stages`: names as `dvc repro` takes them, `finetune` for every `finetune@…` and what they need. None: all.
    Before the first that has something to do, `doctor` looks whether the machine and the tree can do it; what they
    cannot ends the run.
    A stage below a failed one does not run, an independent one does; the flow run then ends as Failed with the stages'
    own error lines, and without a traceback that would tell nothing more.
    """
    _end_with_worker()
    try:
        with hold(PIPELINE, f"{flow_run.name}, process {os.getpid()}"):
            selected = select(read_graph(ROOT), stages)
            clean = unchanged(ROOT, selected)
            if len(clean) < len(selected):
                doctor()
            states = _run(selected, clean)
            _publish(ROOT / "reports" / TABLES)
    except TerminationSignal:
        # Cancellation. Prefect kills this process 30 s after the signal, so the stages get 25.
        RUNNING.stop()
        raise
    except HeldError as holder:
        return _failed(f"another flow run works in this tree ({holder}); wait for it or cancel it")
    except (GraphError, DoctorError, ValueError) as error:
        return _failed(str(error))
    failed = [_error(name, state) for name, state in states.items() if state.is_failed() or state.is_crashed()]
    return _failed("\n".join(failed)) if failed else Completed()


def _failed(reason: str) -> State[None]:
    """The end of the flow run. In the log too: `prefect deployment run --watch` shows that, and of the state its
    name."""
    get_run_logger().error(reason)
    return Failed(message=reason)


@task(name="doctor", task_run_name="doctor", cache_policy=NO_CACHE, persist_result=False, retries=0)
def doctor() -> None:
    """Log every finding of `flows.doctor`. Raises DoctorError, with the remedies, where anything fails."""
    findings = examine(project_environment())
    log = get_run_logger()
    for finding in findings:
        say = log.info if finding.level == "ok" else log.warning
        for line in finding.lines():
            say(line)
    raise_for(findings)


def _run(stages: list[Stage], clean: set[str]) -> dict[str, State[Any]]:
    """Submit each stage when its parents are done and there is room for one more; the final state of each.

    `clean`: those that DVC would skip.
    """
    free, exclusive = list(range(stages_at_once())), cuda_devices()
    futures: dict[str, Future] = {}
    slots: dict[str, int] = {}
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    finished: set[str] = set()
    waiting = list(stages)
    while waiting or len(finished) < len(futures):
        for stage in [stage for stage in waiting if finished.issuperset(stage.upstream)]:
            if not free:
                break
            waiting.remove(stage)
            slots[stage.name] = free.pop(0)
            future = task_for(stage).submit(
                stage.name,
                unchanged=stage.name in clean,
                environment=_variables(stage, slots[stage.name], exclusive),
                timeout=stage.meta.get("timeout_seconds"),
                wait_for=[futures[name] for name in stage.upstream],
            )
            futures[stage.name] = future
            future.add_done_callback(lambda _, name=stage.name: done.put(name))
        name = done.get()
        finished.add(name)
        free.append(slots[name])
    for future in futures.values():
        future.wait()
    return {name: future.state for name, future in futures.items()}


def _variables(stage: Stage, slot: int, devices: list[str]) -> dict[str, str]:
    """What the stage's process is told beyond the environment: its pipeline run and, on request, its own device."""
    variables = {"BERTCORE_PIPELINE_RUN": str(flow_run.id), "BERTCORE_PIPELINE_NAME": str(flow_run.name)}
    if stage.meta.get("devices") == 1 and len(devices) > 1:
        variables["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    return variables


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
    """End when the worker ends, where `make pretrain` asked for it: an orphaned run would go on unseen."""
    if not os.environ.get("BERTCORE_END_WITH_WORKER"):
        return
    worker = os.getppid()

    def watch() -> None:
        while os.getppid() == worker:
            time.sleep(1.0)
        RUNNING.stop()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
