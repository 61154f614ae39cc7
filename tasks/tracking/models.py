"""A finished model as a logged model of MLflow: loaded, served and compared there, and registered.

It is a generic Python model whose data is the saved directory, with the code that reads it, so that `mlflow models
serve` needs nothing of the tree. No pickle: weights are safetensors. Where the store is on this disk, the weights get
a second name there and no second copy: see `shared_weights`.

`python -m tasks.tracking.models STAGE[@TASK]` logs the model that the tree has, where the stage itself could not.
"""

import argparse
import json
import logging
import shutil
import sys
import tempfile
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModel, LoggedModelOutput, Metric
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.tracking import MlflowClient
from mlflow.utils.file_utils import local_file_uri_to_path
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT, MLFLOW_MODEL_VERSIONS, MLFLOW_PARENT_RUN_ID
from mlflow.utils.time import get_current_time_millis
from sqlalchemy.exc import SQLAlchemyError

import bertcore
from bertcore.errors import ArtifactError, ConfigError
from bertcore.variables import switch
from tasks.status import exit_status
from tasks.tracking import lineage, registry
from tasks.tracking.finished import SavedModel, place_of, saved_by
from tasks.tracking.outbox import first_line
from tasks.tracking.producers import made_by
from tasks.tracking.shared_weights import WEIGHTS, link, remember, weights_of
from tasks.tracking.signatures import example, signature, use_of
from tasks.tracking.store import open_experiment, reachable, tracking_uri

logger = logging.getLogger(__name__)

SWITCH = "BERTCORE_LOG_MODELS"
"""Environment variable: 1 logs models wherever the store is, 0 nowhere; without it, where it is on this machine."""

REQUIREMENTS = ("accelerate", "numpy", "pandas", "pyarrow", "safetensors", "tokenizers", "torch", "tqdm")
"""What the code imports that reads a model (a test follows the imports), and the table of a request."""


def log_finished(client: MlflowClient, run_id: str, stage: str, task: str | None) -> None:
    """Log what the stage has saved with its run. What fails is told, and the stage does not fail by it."""
    try:
        if place_of(stage, task) and _wanted(client, run_id):
            log(client, run_id, stage, task)
    except (MlflowException, SQLAlchemyError, OSError, ValueError, KeyError, ArtifactError) as error:
        remedy = f"python -m tasks.tracking.models {stage}" + (f"@{task}" if task else "")
        logger.warning("MLflow has not the model of %s: %s; `%s` logs it", stage, first_line(error), remedy)


def _wanted(client: MlflowClient, run_id: str) -> bool:
    here = not tracking_uri().startswith("http") and _is_local(client.get_run(run_id).info.artifact_uri)
    return switch(SWITCH, default=here)


def log(client: MlflowClient, run_id: str, stage: str, task: str | None) -> LoggedModel:
    """Log what the stage has saved with its run and the run's parent, its metrics and what they were measured on, and
    register it."""
    run = client.get_run(run_id)
    saved = saved_by(stage, task, run.data.params)
    digest = lineage.dvc_hash(saved.directory)
    tags = {f"dvc.out.{saved.directory}": digest}
    tags |= {name: run.data.tags[name] for name in ("git.commit", "prefect.flow_run_id") if name in run.data.tags}
    model = client.create_logged_model(
        run.info.experiment_id,
        name=registry.registered_name("", saved.name).strip(".").replace(".", "-"),
        source_run_id=run_id,
        tags=tags,
        params=run.data.params,
        model_type=use_of(saved.config),
    )
    try:
        _keep(client, model, saved, digest)
    except BaseException:
        client.finalize_logged_model(model.model_id, "FAILED")
        raise
    client.finalize_logged_model(model.model_id, "READY")
    for each in (run_id, run.data.tags.get(MLFLOW_PARENT_RUN_ID)):
        if each is not None:
            client.log_outputs(each, [LoggedModelOutput(model.model_id, saved.step)])
    _score(client, run_id, model.model_id, saved)
    name = registry.registered_name(client.get_experiment(run.info.experiment_id).name, saved.name)
    version = registry.register(client, name, model.model_id, run_id, saved.score, tags)
    of_model = json.dumps([{"name": name, "version": version.version}])
    client.set_logged_model_tags(model.model_id, {MLFLOW_MODEL_VERSIONS: of_model})  # its page links to the version
    return model


def _score(client: MlflowClient, run_id: str, model_id: str, saved: SavedModel) -> None:
    """The metrics of the model, linked with the data that it was scored on."""
    source = json.dumps({"uri": saved.data.partition(" ")[0]})
    data = Dataset(saved.data, saved.digest, "local", source)
    client.log_inputs(run_id, [DatasetInput(data, [InputTag(MLFLOW_DATASET_CONTEXT, "evaluation")])])
    now = get_current_time_millis()
    points = [
        Metric(name, value, now, saved.step, model_id, saved.data, saved.digest, run_id)
        for name, value in saved.metrics.items()
    ]
    client.log_batch(run_id, points)


def _keep(client: MlflowClient, model: LoggedModel, saved: SavedModel, digest: str) -> None:
    if _is_local(model.artifact_location):
        place = Path(local_file_uri_to_path(model.artifact_location))
        write(place, saved, model)
        remember(place / "data" / saved.name, saved.directory, digest)
        return
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "model"
        write(place, saved, model)
        client.log_model_artifacts(model.model_id, str(place))


def write(place: Path, saved: SavedModel, model: LoggedModel) -> None:
    """The logged model's files into `place`, where nothing is; its weights are those of the saved directory."""
    use, described = use_of(saved.config), Model(model_id=model.model_id, run_id=model.source_run_id)
    with tempfile.TemporaryDirectory() as directory:
        light = Path(directory) / saved.name
        shutil.copytree(saved.directory, light, ignore=shutil.ignore_patterns(WEIGHTS))
        code = Path(directory) / "bertcore"
        shutil.copytree(Path(bertcore.__file__).parent, code, ignore=shutil.ignore_patterns("__pycache__"))
        with warnings.catch_warnings(action="ignore"):  # of MLflow, about types of its own
            from mlflow import pyfunc  # stages that log no model do without

            logging.getLogger("mlflow.pyfunc").setLevel(logging.WARNING)

            pyfunc.save_model(
                path=str(place),
                loader_module="bertcore.serving.pyfunc",
                data_path=str(light),
                code_paths=[str(code)],
                mlflow_model=described,
                signature=signature(use),
                input_example=example(use, saved.pairs),
                pip_requirements=_requirements(),
            )
    for weights in weights_of(saved.directory):
        link(weights, place / "data" / saved.name / weights.relative_to(saved.directory))
    described.model_size_bytes = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    described.save(str(place / "MLmodel"))


def _requirements() -> list[str]:
    """The versions that are installed, without what names a build (`2.13.0+cpu`)."""
    return [f"{name}=={version_of(name).partition('+')[0]}" for name in ("mlflow", *REQUIREMENTS)]


def _is_local(uri: str | None) -> bool:
    return uri is not None and (uri.startswith("file:") or uri.startswith("/"))


def main(name: str) -> None:
    """Log the model of stage `name`; `ConfigError` where it has left none, or its run is not known."""
    stage, _, task = name.partition("@")
    place = place_of(stage, task or None)
    if place is None:
        raise ConfigError(
            f"found no model of {name!r}, expected pretrain, embed or finetune@TASK, run to its end; run it"
        )
    with reachable():
        client, experiment = open_experiment()
        run_id = made_by(client, experiment, str(place), lineage.dvc_hash(place))
        if run_id is None:
            raise ConfigError(
                f"{place}: found no run that made it, expected one in this store; make it anew: "
                f"dvc repro --force --single-item {name}"
            )
        model = log(client, run_id, stage, task or None)
    print(f"{model.name}: {model.model_id}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tasks.tracking.models", description="Log the model of a stage")
    parser.add_argument("stage", help="pretrain, embed or finetune@TASK")
    stage = parser.parse_args().stage
    sys.exit(exit_status(lambda: main(stage)))
