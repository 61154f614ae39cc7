"""MLflow: a parent run for one run of the pipeline, a child for each stage that really ran."""

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import psutil
from filelock import FileLock

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# What fails is sent again later. By default a call could take 20 minutes, longer than processes wait for each other.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")

from mlflow.entities import LifecycleStage, Metric, Param, RunStatus, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_SOURCE_NAME
from sqlalchemy.exc import SQLAlchemyError

from bertcore.errors import UnavailableError, may_pass
from bertcore.files import replace_file
from tasks import params
from tasks.tracking.outbox import Outbox, told, without_password

EXPERIMENT = "bert-pretraining"
RUN_ID = "BERTCORE_STAGE_RUN"
"""The stage's MLflow run, for the processes that it starts."""

_RUNNING = RunStatus.to_string(RunStatus.RUNNING)
_WORST_FIRST = (_RUNNING, "FAILED", "KILLED")
"""A parent run has the first of these that the newest run of any of its stages has."""
_INVOCATION = "pipeline.invocation"
_PARAMS_PER_CALL = 100
_LONGEST_PARAM = 6000


Status = Literal["FINISHED", "FAILED", "KILLED"]
"""Of a run that has ended, in MLflow's words."""


@dataclass(frozen=True)
class StageRun:
    """The MLflow run of one stage. What is written to it is kept while the store does not answer."""

    client: MlflowClient
    run_id: str
    parent_id: str
    _outbox: Outbox = field(default_factory=Outbox)

    def log_params(self, values: Mapping[str, Any]) -> None:
        """Log what the stage is told, nested mappings flattened with `.`; the same once more changes nothing."""
        self._outbox.send(partial(_log_params, self.client, self.run_id, values))

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
        points = [Metric(name, value, now, step) for name, value in numbers.items()]
        self._outbox.send(partial(self.client.log_batch, run_id, points))

    def log_artifacts(self, path: Path) -> None:
        """Keep a file or the files of a directory with the run."""
        log = self.client.log_artifacts if path.is_dir() else self.client.log_artifact
        self._outbox.send(partial(log, self.run_id, str(path)))

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self._set_tags(self.run_id, tags)

    def set_parent_tags(self, tags: Mapping[str, str]) -> None:
        self._set_tags(self.parent_id, tags)

    def _set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        entries = [RunTag(name, value) for name, value in tags.items()]
        self._outbox.send(partial(self.client.log_batch, run_id, tags=entries))

    def end(self, status: Status) -> None:
        """KILLED is a run that was stopped; a training goes on in the same run. Nothing is kept after this."""
        self._outbox.close(partial(self._conclude, status))

    def close(self) -> None:
        """Nothing is kept after this; the run goes on."""
        self._outbox.close()

    def _conclude(self, status: Status) -> None:
        self.client.set_terminated(self.run_id, status)
        with FileLock(".mlflow.lock"):  # of two stages that end together, the second one sees that both have ended
            parent = self.client.get_run(self.parent_id).info
            of_parent = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{self.parent_id}'"
            children = self.client.search_runs([parent.experiment_id], of_parent, order_by=["attributes.start_time"])
            newest = {child.data.tags["stage"]: child.info.status for child in children}
            worst = next((each for each in _WORST_FIRST if each in newest.values()), "FINISHED")
            if worst == _RUNNING:
                self.client.update_run(self.parent_id, worst)
            else:
                self.client.set_terminated(self.parent_id, worst)


def metric_name(name: str) -> str:
    """`name` as MLflow takes it: reasons and paths that are part of it may hold other characters, or `//`."""
    parts = (re.sub(r"[^\w .:-]", "_", part).strip() for part in name.split("/"))
    return "/".join(part for part in parts if part.strip("."))


def start(stage: str, tags: Mapping[str, str], memory: Path | None = None) -> StageRun:
    """A child run named `stage` (`STAGE@TASK`) of this invocation's parent run, which its first stage makes.

    `memory`: a file that lies there until the work is done. It keeps the run's id, and the run that it names, of an
    earlier invocation that was stopped or killed, is continued. `UnavailableError` where the store cannot be used.
    """
    with reachable():
        client, experiment = _client()
        parent_id = _parent(client, experiment, tags)
        run_id = _own_run(client, experiment, parent_id, stage, tags, memory)
        client.update_run(parent_id, status=_RUNNING)  # now that another stage's end finds this one running
    return StageRun(client, run_id, parent_id)


def _own_run(
    client: MlflowClient, experiment: str, parent_id: str, stage: str, tags: Mapping[str, str], memory: Path | None
) -> str:
    names = {MLFLOW_PARENT_RUN_ID: parent_id, MLFLOW_RUN_NAME: stage, MLFLOW_SOURCE_NAME: "dvc.yaml"}
    _, _, task = stage.partition("@")
    own_tags = {**tags, **names, "stage": stage, **({"task": task} if task else {})}
    if memory and (run_id := _remembered(client, memory)):
        client.update_run(run_id, status=_RUNNING)
        client.log_batch(run_id, tags=[RunTag(name, value) for name, value in own_tags.items()])
        return run_id
    run = client.create_run(experiment, tags=own_tags, run_name=stage)
    if memory:
        with replace_file(memory) as beside:
            beside.write_text(run.info.run_id, encoding="ascii")
    return run.info.run_id


def _remembered(client: MlflowClient, memory: Path) -> str | None:
    """The run that `memory` names, if this store has it still."""
    try:
        info = client.get_run(memory.read_text(encoding="ascii")).info
    except (OSError, ValueError):
        return None
    except MlflowException as error:
        if may_pass(error.get_http_status_code()):
            raise
        return None
    return info.run_id if info.lifecycle_stage == LifecycleStage.ACTIVE else None


def attach(run_id: str) -> StageRun:
    """The run that another process of the same stage started. `UnavailableError` where the store cannot be used."""
    with reachable():
        client, _ = _client()
        return StageRun(client, run_id, client.get_run(run_id).data.tags[MLFLOW_PARENT_RUN_ID])


@contextmanager
def reachable() -> Iterator[None]:
    """What fails inside because of the store is an `UnavailableError` that names it."""
    try:
        yield
    except (MlflowException, SQLAlchemyError) as error:
        remedy = "start the server, or correct MLFLOW_TRACKING_URI (without it mlflow.db in this tree is used)"
        if not os.environ.get("MLFLOW_TRACKING_URI"):
            remedy = "mend the file, or move it away to begin another"
        raise UnavailableError(
            f"MLflow's store {without_password(tracking_uri())} cannot be used ({told(error)}); {remedy}"
        ) from None


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

    The flow gives both in the environment. A plain `dvc repro` or `dvc exp run` is the stages' common ancestor process.
    """
    if key := os.environ.get("BERTCORE_PIPELINE_RUN"):
        return key, os.environ.get("BERTCORE_PIPELINE_NAME", key)
    for process in psutil.Process().parents():
        if command := _reproduction(process.cmdline()):
            return f"dvc-{process.pid}-{process.create_time()}", command
    return f"process-{os.getpid()}-{time.time()}", f"{Path(sys.argv[0]).name} alone"


def _reproduction(arguments: list[str]) -> str | None:
    """The command of dvc that runs stages, if a process with these arguments is one."""
    if not any(Path(argument).name in ("dvc", "dvc.exe") for argument in arguments[:3]):
        return None
    if any(first in ("exp", "experiments") and then in ("run", "exec-run") for first, then in pairwise(arguments)):
        return "dvc exp run"
    return "dvc repro" if "repro" in arguments else None
