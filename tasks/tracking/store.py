"""Where runs are kept: MLflow's store, and the experiment that holds them."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from filelock import FileLock

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# What fails is sent again later. By default a call could take 20 minutes, longer than processes wait for each other.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")

import mlflow
from mlflow.entities import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from bertcore.errors import ConfigError, UnavailableError, without_password
from tasks.experiment import experiment_name
from tasks.tracking.outbox import CREDENTIALS, first_line, refuses

_KIND, _TRAINING = "mlflow.experimentKind", "custom_model_development"
"""The tag by which the pages choose their view, and its value for trainings: without it they show that of agents."""


_URI = "MLFLOW_TRACKING_URI"
_ARTIFACTS = "mlartifacts"
"""Beside a SQLite file."""
_PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "storage_location"),
)
"""Where MLflow's tables keep full paths."""


@contextmanager
def reachable() -> Iterator[None]:
    """What fails inside because of the store is an `UnavailableError` that names it."""
    try:
        yield
    except (MlflowException, SQLAlchemyError) as error:
        raise UnavailableError(
            f"MLflow's store {without_password(tracking_uri())} cannot be used ({first_line(error)}); {_remedy(error)}"
        ) from None


def _remedy(error: MlflowException | SQLAlchemyError) -> str:
    if "out-of-date database schema" in str(error):
        return f"make a backup of it, then run `mlflow db upgrade {without_password(tracking_uri())}`"
    if not os.environ.get(_URI):
        return "mend the file, or move it away to begin another"
    if refuses(error):
        return CREDENTIALS
    return "start the server, or correct MLFLOW_TRACKING_URI (without it mlflow.db in this tree is used)"


def tracking_uri() -> str:
    """`MLFLOW_TRACKING_URI`, or a SQLite file in the project's root."""
    return os.environ.get(_URI) or f"sqlite:///{Path('mlflow.db').resolve()}"


@contextmanager
def as_default() -> Iterator[None]:
    """The store that those parts of MLflow use that take none: its registry, when a version is made."""
    named = os.environ.get(_URI)
    mlflow.set_tracking_uri(tracking_uri())
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]  # none, and no variable; "" would be another store
        if named is not None:
            os.environ[_URI] = named


def lock() -> FileLock:
    """Between the processes that use the store: beside a SQLite file, which several trees may share; with a server,
    between those of this user on this machine."""
    if tracking_uri().startswith("http"):
        place = hashlib.sha256(tracking_uri().encode()).hexdigest()[:16]
        directory = Path("~/.cache/bertcore").expanduser()
        with contextlib.suppress(OSError):  # a home that cannot be written to: per tree
            directory.mkdir(parents=True, exist_ok=True)
            return FileLock(directory / f"mlflow-{place}.lock")
    return FileLock(_directory() / ".mlflow.lock")


def _directory() -> Path:
    database = tracking_uri().partition("sqlite:///")[2]
    return Path(database).resolve().parent if database else Path.cwd()


def open_experiment() -> tuple[MlflowClient, str]:
    """A client, and the id of the experiment, which is made where there is none."""
    client, name = MlflowClient(tracking_uri()), experiment_name()
    location = (_directory() / _ARTIFACTS).as_uri() if tracking_uri().startswith("sqlite:") else None
    with lock():
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            return client, client.create_experiment(name, artifact_location=location, tags={_KIND: _TRAINING})
        if experiment.lifecycle_stage == LifecycleStage.DELETED:
            raise ConfigError(
                f"MLflow's experiment {name!r}: found it deleted, expected one that takes runs; name another with "
                f"MLFLOW_EXPERIMENT_NAME, or bring it back: {_URI}={without_password(tracking_uri())} mlflow "
                f"experiments restore --experiment-id {experiment.experiment_id}"
            )
        if _KIND not in experiment.tags:
            client.set_experiment_tag(experiment.experiment_id, _KIND, _TRAINING)
        before = experiment.artifact_location
        if location and before != location and (not os.environ.get(_URI) or _has_moved(before)):
            _follow_the_tree(before, location)
    return client, experiment.experiment_id


def _has_moved(location: str) -> bool:
    """Whether a directory of this name, beside a database, was there and is no more."""
    address = urlsplit(location)
    place = Path(unquote(address.path))
    return address.scheme == "file" and place.name == _ARTIFACTS and not place.exists()


def _follow_the_tree(before: str, now: str) -> None:
    """In a tree that was moved or copied, have its database name its own artifacts. MLflow keeps their full path."""
    path = tracking_uri().removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        for table, column in _PLACES:
            base.execute(
                f"UPDATE {table} SET {column} = :now || substr({column}, length(:before) + 1) "
                f"WHERE substr({column}, 1, length(:before)) = :before",
                {"before": before, "now": now},
            )
