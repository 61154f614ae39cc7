"""MLflow: a parent run for one run of the pipeline, a child for each stage that really ran."""

import json
import os
import re
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mlflow.entities import Dataset, DatasetInput, InputTag, LifecycleStage, Metric, Param, RunStatus, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import (
    MLFLOW_DATASET_CONTEXT,
    MLFLOW_GIT_COMMIT,
    MLFLOW_PARENT_RUN_ID,
    MLFLOW_RUN_NAME,
    MLFLOW_RUN_NOTE,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
)
from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH

from bertcore.errors import may_pass
from bertcore.files import replace_file
from tasks import params
from tasks.experiment import PIPELINE_NAME, PIPELINE_RUN
from tasks.processes import identity, known_dead, reproduction
from tasks.tracking import lineage, producers, varied
from tasks.tracking.description import ERROR, describe
from tasks.tracking.outbox import Outbox, Points
from tasks.tracking.store import lock, open_experiment, reachable
from tasks.tracking.sweeps import sweep_tags

RUN_ID = "BERTCORE_STAGE_RUN"
"""The stage's MLflow run, for the processes that it starts."""

_RUNNING = RunStatus.to_string(RunStatus.RUNNING)
_WORST_FIRST = (_RUNNING, "FAILED", "KILLED")
"""A parent run has the first of these that the newest run of any of its stages has."""
_INVOCATION = "pipeline.invocation"
_PROCESS = "stage.process"
"""Tag of a stage's run: the process, by which others tell that it was killed."""
_PARAMS_PER_CALL = 100
_LONGEST_PARAM = 6000
_NO_NAME = re.compile(r"[^\w.\- :]")
"""What MLflow takes in no name, of a parameter or of a part of a metric."""


Status = Literal["FINISHED", "FAILED", "KILLED"]
"""Of a run that has ended, in MLflow's words."""


@dataclass(frozen=True)
class Run:
    """A run in MLflow. What is written to it is kept while the store does not answer."""

    client: MlflowClient
    run_id: str
    _outbox: Outbox

    def log_metrics(self, metrics: Mapping[str, Any], step: int = 0) -> None:
        """Log the numbers of `metrics`, nested mappings flattened with `/`."""
        self._outbox.send(self._points(metrics, step))

    def _points(self, metrics: Mapping[str, Any], step: int) -> Points:
        now = int(1000 * time.time())
        flat = params.flatten(metrics, "/").items()
        numbers = {metric_name(name): float(value) for name, value in flat if isinstance(value, int | float)}
        return Points(self.client, self.run_id, [Metric(name, value, now, step) for name, value in numbers.items()])

    def log_datasets(self, hashes: Mapping[str, str]) -> None:
        """Log what the run reads: paths with their DVC hashes."""
        inputs = [_dataset(path, digest) for path, digest in hashes.items() if not lineage.is_unused(Path(path))]
        if inputs:
            self._outbox.send(partial(self.client.log_inputs, self.run_id, inputs))

    def set_tags(self, tags: Mapping[str, str]) -> None:
        entries = [RunTag(name, value) for name, value in tags.items()]
        self._outbox.send(partial(self.client.log_batch, self.run_id, tags=entries))


@dataclass(frozen=True)
class StageRun(Run):
    """The run of one stage."""

    parent: Run
    """That of the pipeline, whose runs are compared."""

    def log_params(self, values: Mapping[str, Any]) -> None:
        """Log what the stage is told, nested mappings flattened with `.`; the same once more changes nothing."""
        self._outbox.send(partial(log_params, self.client, self.run_id, values))

    def report(self, step: int, metrics: Mapping[str, float]) -> None:
        """`log_metrics` for the many steps of a training: written by the way, several steps at once."""
        self._outbox.collect(self._points(metrics, step))

    def log_artifacts(self, path: Path) -> None:
        """Keep a file or the files of a directory with the run."""
        log = self.client.log_artifacts if path.is_dir() else self.client.log_artifact
        self._outbox.send(partial(log, self.run_id, str(path)))

    def link_producers(self, deps: list[str], hashes: Mapping[str, str]) -> None:
        """Name the runs that made what the run reads, also those of cached stages; see `producers.link`."""
        self._outbox.send(partial(producers.link, self.client, self.run_id, self.parent.run_id, deps, hashes))

    def explain(self, error: str) -> None:
        """Keep with the run why it failed: as a tag, and as the text that its page begins with."""
        self.set_tags({ERROR: error[:_LONGEST_PARAM], MLFLOW_RUN_NOTE: error[:_LONGEST_PARAM]})

    def end(self, status: Status) -> None:
        """KILLED is a run that was stopped; a training goes on in the same run. Nothing is kept after this."""
        self._outbox.close(partial(self._conclude, status))

    def close(self) -> None:
        """Nothing is kept after this; the run goes on."""
        self._outbox.close()

    def _conclude(self, status: Status) -> None:
        self.client.set_terminated(self.run_id, status)
        _conclude_parent(self.client, self.parent.run_id)


def _stage_run(client: MlflowClient, run_id: str, parent_id: str) -> StageRun:
    outbox = Outbox()  # of both, in the order of what is sent
    return StageRun(client, run_id, outbox, Run(client, parent_id, outbox))


def _conclude_parent(client: MlflowClient, parent_id: str) -> None:
    """The parent run has the status that its stages' runs give it, and says what became of them."""
    with lock():  # of two stages that end together, the second one sees that both have ended
        parent = client.get_run(parent_id)
        of_parent = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{parent_id}'"
        children = client.search_runs([parent.info.experiment_id], of_parent, order_by=["attributes.start_time"])
        # A user may have runs of their own below it.
        newest = {child.data.tags["stage"]: child for child in children if "stage" in child.data.tags}
        statuses = {child.info.status for child in newest.values()}
        worst = next((each for each in _WORST_FIRST if each in statuses), "FINISHED")
        client.set_tag(parent_id, MLFLOW_RUN_NOTE, describe(parent, newest))
        if worst == _RUNNING:
            client.update_run(parent_id, worst)
        else:
            client.set_terminated(parent_id, worst)


def _end_killed(client: MlflowClient, experiment: str) -> None:
    """End the runs of stages of this machine whose processes were killed, and could not do it."""
    running = f"attributes.status = '{_RUNNING}' and tags.`{_PROCESS}` LIKE '{socket.gethostname()} %'"
    for run in client.search_runs([experiment], running):
        if known_dead(run.data.tags[_PROCESS]):
            client.set_terminated(run.info.run_id, "KILLED")
            _conclude_parent(client, run.data.tags[MLFLOW_PARENT_RUN_ID])


def _dataset(path: str, digest: str) -> DatasetInput:
    source = json.dumps({"uri": path})
    return DatasetInput(Dataset(path, digest, "local", source), [InputTag(MLFLOW_DATASET_CONTEXT, "input")])


def metric_name(name: str) -> str:
    """`name` as MLflow takes it: reasons and paths that are part of it may hold other characters, or `//`."""
    parts = (_NO_NAME.sub("_", part).strip() for part in name.split("/"))
    return "/".join(part for part in parts if part.strip("."))


def start(stage: str, tags: Mapping[str, str], memory: Path | None = None) -> StageRun:
    """A child run named `stage` (`STAGE@TASK`) of this invocation's parent run, which its first stage makes.

    `memory`: a file that lies there until the work is done. It keeps the run's id, and the run that it names, of an
    earlier invocation that was stopped or killed, is continued. `UnavailableError` where the store cannot be used.
    """
    with reachable():
        client, experiment = open_experiment()
        _end_killed(client, experiment)
        parent_id = _parent(client, experiment, tags)
        run_id = _own_run(client, experiment, parent_id, stage, tags, memory)
        client.update_run(parent_id, status=_RUNNING)  # now that another stage's end finds this one running
    return _stage_run(client, run_id, parent_id)


def _own_run(
    client: MlflowClient, experiment: str, parent_id: str, stage: str, tags: Mapping[str, str], memory: Path | None
) -> str:
    name, _, task = stage.partition("@")
    names = {MLFLOW_PARENT_RUN_ID: parent_id, MLFLOW_RUN_NAME: stage, **_source(f"tasks/{name}.py", tags)}
    own_tags = {**tags, **names, "stage": stage, _PROCESS: identity(), **({"task": task} if task else {})}
    if memory and (run_id := _remembered(client, memory)):
        client.update_run(run_id, status=_RUNNING)
        client.log_batch(run_id, tags=[RunTag(name, value) for name, value in own_tags.items()])
        return run_id
    run = client.create_run(experiment, tags=own_tags, run_name=stage)
    log_params(client, run.info.run_id, varied.as_param(varied.of_stage(varied.against_commit(params.read()), task)))
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
        client, _ = open_experiment()
        return _stage_run(client, run_id, client.get_run(run_id).data.tags[MLFLOW_PARENT_RUN_ID])


def _source(file: str, tags: Mapping[str, str]) -> dict[str, str]:
    """MLflow's own tags for what ran, and of which commit."""
    commit = tags.get("git.commit", "").removesuffix("-dirty")
    named = {MLFLOW_SOURCE_TYPE: "LOCAL", MLFLOW_SOURCE_NAME: file}
    return named | ({MLFLOW_GIT_COMMIT: commit} if commit else {})


def _parent(client: MlflowClient, experiment: str, tags: Mapping[str, str]) -> str:
    key, name = _invocation()
    with lock():
        if found := client.search_runs([experiment], f"tags.`{_INVOCATION}` = '{key}'", max_results=1):
            return found[0].info.run_id
        values = params.read()
        changed = varied.against_commit(values)
        sweep = sweep_tags(client, experiment)
        own_tags = {**tags, **sweep, **_source("dvc.yaml", tags), _INVOCATION: key}
        run_name = varied.run_name(name, changed, tags.get("git.commit"))
        run = client.create_run(experiment, tags=own_tags, run_name=run_name)
    shown = {name: value for name, value in params.flatten(values).items() if not name.startswith("finetune.")}
    log_params(client, run.info.run_id, varied.as_param(changed) | shown | (changed or {}))
    return run.info.run_id


def log_params(client: MlflowClient, run_id: str, values: Mapping[str, Any]) -> None:
    # It may be that no stage has checked params.yaml yet; a name that MLflow refuses is for that check to report.
    named = {_NO_NAME.sub("_", name)[:MAX_ENTITY_KEY_LENGTH]: value for name, value in params.flatten(values).items()}
    entries = [Param(name, str(value)[:_LONGEST_PARAM]) for name, value in named.items()]
    for start_index in range(0, len(entries), _PARAMS_PER_CALL):
        client.log_batch(run_id, params=entries[start_index : start_index + _PARAMS_PER_CALL])


def _invocation() -> tuple[str, str]:
    """A key that all stages of one pipeline run share, and the run's name.

    The flow gives both in the environment. A plain `dvc repro` or `dvc exp run` is the stages' common ancestor process.
    """
    if key := os.environ.get(PIPELINE_RUN):
        return key, os.environ.get(PIPELINE_NAME, key)
    if dvc := reproduction():
        return dvc.key, os.environ.get("DVC_EXP_NAME", dvc.command)
    return f"process-{os.getpid()}-{time.time()}", f"{Path(sys.argv[0]).name} alone"
