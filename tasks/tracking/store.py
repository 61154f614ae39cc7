"""Where runs are kept: MLflow's store, and the experiment that holds them."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# What fails is sent again later. By default a call could take 20 minutes, longer than processes wait for each other.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")

from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from bertcore.errors import UnavailableError
from tasks.tracking.outbox import told, without_password

EXPERIMENT = "bert-pretraining"
"""The experiment, where `MLFLOW_EXPERIMENT_NAME` names no other one."""

_KIND, _TRAINING = "mlflow.experimentKind", "custom_model_development"
"""The tag by which the pages choose their view, and its value for trainings: without it they show that of agents."""


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


def lock() -> FileLock:
    """Between the processes that use the store: beside a SQLite file, which several trees may share; else per tree."""
    return FileLock(_directory() / ".mlflow.lock")


def _directory() -> Path:
    database = tracking_uri().partition("sqlite:///")[2]
    return Path(database).resolve().parent if database else Path.cwd()


def open_experiment() -> tuple[MlflowClient, str]:
    """A client, and the id of the experiment, which is made where there is none."""
    client, name = MlflowClient(tracking_uri()), os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    location = (_directory() / "mlartifacts").as_uri() if tracking_uri().startswith("sqlite:") else None
    with lock():
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            return client, client.create_experiment(name, artifact_location=location, tags={_KIND: _TRAINING})
        if _KIND not in experiment.tags:
            client.set_experiment_tag(experiment.experiment_id, _KIND, _TRAINING)
        if not os.environ.get("MLFLOW_TRACKING_URI") and location and experiment.artifact_location != location:
            _follow_the_tree(experiment.artifact_location, location)
    return client, experiment.experiment_id


def _follow_the_tree(before: str, now: str) -> None:
    """In a tree that was moved or copied, have its database name its own artifacts. MLflow keeps their full path."""
    path = tracking_uri().removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            base.execute(
                f"UPDATE {table} SET {column} = :now || substr({column}, length(:before) + 1) "
                f"WHERE substr({column}, 1, length(:before)) = :before",
                {"before": before, "now": now},
            )
