"""What every stage has in common: its MLflow run, its lineage and its exit status."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertcore.errors import STOPPED, StoppedError, without_password
from bertcore.variables import switch
from tasks import params
from tasks.experiment import PIPELINE_RUN
from tasks.processes import end_with, refuse_beside_an_experiment, reproduction
from tasks.status import ProcessEnded, exit_status
from tasks.tracking import lineage, models, runs
from tasks.tracking.shared_weights import share_with_dvc
from tasks.tracking.system import monitored
from tasks.training import checkpoints

Body = Callable[[runs.StageRun], None]
RunFile = Callable[[], Path] | None
Configs = Mapping[str, type]


def main(
    stage: str, body: Body, task: str | None = None, run_file: RunFile = None, configs: Configs | None = None
) -> int:
    """Run `body` as the stage `stage` (of `task`, for a matrix stage); the exit status of its process.

    `run_file` gives the file by which `runs.start` goes on in the MLflow run of a stage that was stopped.
    `configs`: section of params.yaml -> its dataclass (`finetune`: that of a task); the run shows all their values,
    defaults and a recipe's included. Without it, those that are written in params.yaml.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return exit_status(lambda: _tracked(stage, body, task, run_file, configs or {}))
    finally:
        signal.signal(signal.SIGTERM, before)


def _tracked(stage: str, body: Body, task: str | None, run_file: RunFile, configs: Configs) -> None:
    if dvc := reproduction():
        end_with(dvc.process)  # a stage that outlives its dvc would write for nobody, beside the next one
        refuse_beside_an_experiment(dvc)
    checkpoints.clear_finished()
    switch(models.SWITCH)  # a value that says nothing is told before any work
    share_with_dvc()
    deps, outs = lineage.stage_paths(stage, task)
    keys = lineage.stage_params(stage, task)
    before = lineage.fingerprint(deps, keys)
    data = lineage.data_hashes(deps)
    run = runs.start(f"{stage}@{task}" if task else stage, _tags(data), run_file() if run_file else None)
    os.environ[runs.RUN_ID] = run.run_id
    status: runs.Status = "FAILED"
    try:
        run.log_params(_values(stage, task, configs))
        run.log_datasets(data)
        run.link_producers(deps, data)
        with monitored(run.run_id):
            body(run)
        lineage.check_unchanged(before, deps, keys)
        run.set_tags({f"dvc.out.{path}": lineage.dvc_hash(Path(path)) for path in outs})
        models.log_finished(run.client, run.run_id, stage, task)
        status = "FINISHED"
    except (StoppedError, KeyboardInterrupt):
        status = "KILLED"
        raise
    except ProcessEnded as ended:
        status = "KILLED" if ended.status == STOPPED else "FAILED"
        raise
    finally:
        _end(run, status)


def _end(run: runs.StageRun, status: runs.Status) -> None:
    """A failed run keeps the error that is under way."""
    if status == "FAILED" and (error := sys.exception()):
        run.explain(without_password(str(error) or type(error).__name__))
    run.end(status)


def _values(stage: str, task: str | None, configs: Configs) -> dict[str, Any]:
    """What the stage is told, by section; a task's is `finetune` for every task, so that tasks can be compared."""
    if task:
        config = configs.get("finetune")
        return {"finetune": asdict(params.task(task, config)) if config else params.task_entry(task)}
    if configs:
        return {name: asdict(params.section(name, config)) for name, config in configs.items()}
    return {stage: params.read().get(stage) or {}}


def _tags(data: Mapping[str, str]) -> dict[str, str]:
    """`data`: path -> DVC hash of what the stage reads."""
    tags = {f"dvc.dep.{path}": value for path, value in data.items()}
    if commit := lineage.git_commit():
        tags["git.commit"] = commit
    if flow_run := os.environ.get(PIPELINE_RUN):
        tags["prefect.flow_run_id"] = flow_run
    return tags
