"""What every stage has in common: its MLflow run, its lineage and its exit status."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertcore.errors import STOPPED, StoppedError
from tasks import params
from tasks.status import ProcessEnded, exit_status
from tasks.tracking import lineage
from tasks.tracking import runs as tracking
from tasks.training import checkpoints

Body = Callable[[tracking.StageRun], None]
Memory = Callable[[], Path] | None
Configs = Mapping[str, type]


def main(stage: str, body: Body, task: str | None = None, memory: Memory = None, configs: Configs | None = None) -> int:
    """Run `body` as the stage `stage` (of `task`, for a matrix stage); the exit status of its process.

    `memory` gives the file by which `tracking.start` goes on in the MLflow run of a stage that was stopped. `configs`:
    section of params.yaml -> its dataclass (`finetune`: that of a task); the run shows all their values, defaults and
    a recipe's included. Without it, those that are written in params.yaml.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return exit_status(lambda: _tracked(stage, body, task, memory, configs or {}))
    finally:
        signal.signal(signal.SIGTERM, before)


def _tracked(stage: str, body: Body, task: str | None, memory: Memory, configs: Configs) -> None:
    checkpoints.clear_finished()
    deps, outs = lineage.stage_paths(stage, task)
    before = lineage.fingerprint(deps)
    run = tracking.start(f"{stage}@{task}" if task else stage, _tags(deps), memory() if memory else None)
    os.environ[tracking.RUN_ID] = run.run_id
    status: tracking.Status = "FAILED"
    try:
        run.log_params(_values(stage, task, configs))
        body(run)
        lineage.check_unchanged(before, deps)
        run.set_tags({f"dvc.out.{path}": lineage.dvc_hash(Path(path)) for path in outs})
        status = "FINISHED"
    except (StoppedError, KeyboardInterrupt):
        status = "KILLED"
        raise
    except ProcessEnded as ended:
        status = "KILLED" if ended.status == STOPPED else "FAILED"
        raise
    finally:
        run.end(status)


def _values(stage: str, task: str | None, configs: Configs) -> dict[str, Any]:
    """What the stage is told, by section; a task's is `finetune` for every task, so that tasks can be compared."""
    if task:
        config = configs.get("finetune")
        return {"finetune": asdict(params.task(task, config)) if config else params.task_entry(task)}
    if configs:
        return {name: asdict(params.section(name, config)) for name, config in configs.items()}
    return {stage: params.read().get(stage) or {}}


def _tags(deps: list[str]) -> dict[str, str]:
    tags = {f"dvc.dep.{path}": value for path, value in lineage.data_hashes(deps).items()}
    if commit := lineage.git_commit():
        tags["git.commit"] = commit
    if flow_run := os.environ.get("BERTCORE_PIPELINE_RUN"):
        tags["prefect.flow_run_id"] = flow_run
    return tags
