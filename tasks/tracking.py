"""MLflow: a parent run for one run of the pipeline, a child for each stage that really ran."""

import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
from filelock import FileLock

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from mlflow.entities import LifecycleStage, Metric, Param, RunStatus, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_SOURCE_NAME

from bertcore.files import replace_file
from tasks import params

EXPERIMENT = "bert-pretraining"
RUN_ID = "BERTCORE_STAGE_RUN"
"""The stage's MLflow run, for the processes that it starts."""

_RUNNING = RunStatus.to_string(RunStatus.RUNNING)
_INVOCATION = "pipeline.invocation"
_PARAMS_PER_CALL = 100
_LONGEST_PARAM = 6000


Status = Literal["FINISHED", "FAILED", "KILLED"]
"""Of a run that has ended, in MLflow's words."""


@dataclass(frozen=True)
class StageRun:
    """The MLflow run of one stage."""

    client: MlflowClient
    run_id: str
    parent_id: str

    def log_metrics(self, metrics: Mapping[str, Any], step: int = 0) -> None:
        """Log the numbers of `metrics`, nested mappings flattened with `/`."""
        self._log(self.run_id, metrics, step)

    def report(self, step: int, metrics: Mapping[str, float]) -> None:
        """`log_metrics` with its arguments as the training loops give them."""
        self.log_metrics(metrics, step)

    def log_parent_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Log numbers by which whole pipeline runs are compared."""
        self._log(self.parent_id, metrics, 0)

    def _log(self, run_id: str, metrics: Mapping[str, Any], step: int) -> None:
        now = int(1000 * time.time())
        flat = params.flatten(metrics, "/").items()
        numbers = {metric_name(name): float(value) for name, value in flat if isinstance(value, int | float)}
        self.client.log_batch(run_id, [Metric(name, value, now, step) for name, value in numbers.items()])

    def log_artifacts(self, path: Path) -> None:
        """Keep a file or the files of a directory with the run."""
        (self.client.log_artifacts if path.is_dir() else self.client.log_artifact)(self.run_id, str(path))

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self.client.log_batch(self.run_id, tags=[RunTag(name, value) for name, value in tags.items()])

    def end(self, status: Status) -> None:
        """KILLED is a run that was stopped; a training goes on in the same run."""
        for run_id in (self.run_id, self.parent_id):
            self.client.set_terminated(run_id, status)


def metric_name(name: str) -> str:
    """`name` as MLflow takes it: reasons and paths that are part of it may hold other characters, or `//`."""
    parts = (re.sub(r"[^\w .:-]", "_", part).strip() for part in name.split("/"))
    return "/".join(part for part in parts if part.strip("."))


def start(stage: str, tags: Mapping[str, str], memory: Path | None = None) -> StageRun:
    """A child run named `stage` of this invocation's parent run, which the first stage of the invocation makes.

    `memory`: a file that lies there until the work is done. It keeps the run's id, and the run that it names, of an
    earlier invocation that was stopped or killed, is continued.
    """
    client, experiment = _client()
    parent_id = _parent(client, experiment, tags)
    client.update_run(parent_id, status=_RUNNING)
    names = {MLFLOW_PARENT_RUN_ID: parent_id, MLFLOW_RUN_NAME: stage, MLFLOW_SOURCE_NAME: "dvc.yaml"}
    own_tags = {**tags, **names, "stage": stage}
    if memory and (run_id := _remembered(client, memory)):
        client.update_run(run_id, status=_RUNNING)
        continued = StageRun(client, run_id, parent_id)
        continued.set_tags(own_tags)
        return continued
    run = client.create_run(experiment, tags=own_tags, run_name=stage)
    own = stage.split("@")
    values = params.read()
    section = {own[0]: values.get(own[0], {})} if len(own) == 1 else {own[1]: values["finetune"]["tasks"][own[1]]}
    _log_params(client, run.info.run_id, section)
    if memory:
        with replace_file(memory) as beside:
            beside.write_text(run.info.run_id, encoding="ascii")
    return StageRun(client, run.info.run_id, parent_id)


def _remembered(client: MlflowClient, memory: Path) -> str | None:
    """The run that `memory` names, if this store has it still."""
    try:
        info = client.get_run(memory.read_text(encoding="ascii")).info
    except (OSError, ValueError, MlflowException):
        return None
    return info.run_id if info.lifecycle_stage == LifecycleStage.ACTIVE else None


def attach(run_id: str) -> StageRun:
    """The run that another process of the same stage started."""
    client, _ = _client()
    return StageRun(client, run_id, client.get_run(run_id).data.tags[MLFLOW_PARENT_RUN_ID])


def tracking_uri() -> str:
    """`MLFLOW_TRACKING_URI`, or a SQLite file in the project's root."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path('mlflow.db').resolve()}"


def _client() -> tuple[MlflowClient, str]:
    client = MlflowClient(tracking_uri())
    with FileLock(".mlflow.lock"):
        if experiment := client.get_experiment_by_name(EXPERIMENT):
            return client, experiment.experiment_id
        local = tracking_uri().startswith("sqlite:")
        location = Path("mlartifacts").resolve().as_uri() if local else None
        return client, client.create_experiment(EXPERIMENT, artifact_location=location)


def _parent(client: MlflowClient, experiment: str, tags: Mapping[str, str]) -> str:
    key, name = _invocation()
    with FileLock(".mlflow.lock"):
        if found := client.search_runs([experiment], f"tags.`{_INVOCATION}` = '{key}'", max_results=1):
            return found[0].info.run_id
        run = client.create_run(experiment, tags={**tags, _INVOCATION: key}, run_name=name)
    _log_params(client, run.info.run_id, params.read())
    return run.info.run_id


def _log_params(client: MlflowClient, run_id: str, values: Mapping[str, Any]) -> None:
    entries = [Param(name, str(value)[:_LONGEST_PARAM]) for name, value in params.flatten(values).items()]
    for start_index in range(0, len(entries), _PARAMS_PER_CALL):
        client.log_batch(run_id, params=entries[start_index : start_index + _PARAMS_PER_CALL])


def _invocation() -> tuple[str, str]:
    """A key that all stages of one pipeline run share, and the run's name.

    The flow gives both in the environment. A plain `dvc repro` is the stages' common ancestor process.
    """
    if key := os.environ.get("BERTCORE_PIPELINE_RUN"):
        return key, os.environ.get("BERTCORE_PIPELINE_NAME", key)
    for process in psutil.Process().parents():
        if (
            any(Path(argument).name in ("dvc", "dvc.exe") for argument in process.cmdline()[:3])
            and "repro" in process.cmdline()
        ):
            return f"dvc-{process.pid}-{process.create_time()}", "dvc repro"
    return f"process-{os.getpid()}-{time.time()}", f"{Path(sys.argv[0]).name} alone"
