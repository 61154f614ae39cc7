"""The disk, the directories that are written to, and the tracking store."""

import contextlib
import http.client
import os
import shutil
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Mapping
from math import ceil
from pathlib import Path

from mlflow.environment_variables import (
    MLFLOW_ALLOW_FILE_STORE,
    MLFLOW_HTTP_REQUEST_MAX_RETRIES,
    MLFLOW_HTTP_REQUEST_TIMEOUT,
)
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.utils.uri import is_local_uri

from bertcore.corpus.sources.http import cache_directory
from bertcore.errors import without_password
from bertcore.files import unwritable
from tasks.doctor.findings import Finding, fail, ok, warn
from tasks.doctor.machine import size
from tasks.doctor.plan import Plan
from tasks.paths import CORPUS, PRETRAINED
from tasks.tracking.outbox import CREDENTIALS, first_line, refuses
from tasks.tracking.store import tracking_uri

SECONDS = 2.0
"""That a tracking server may take to answer."""
ONE_SHORT_TRY = {MLFLOW_HTTP_REQUEST_MAX_RETRIES.name: "0", MLFLOW_HTTP_REQUEST_TIMEOUT.name: str(ceil(SECONDS))}
"""Variables of a process in which MLflow's client takes no longer either."""
_LOGGED = 2_000_000
"""Bytes of a model in MLflow beside its weights, which get a second name there."""
_ROOM = 1.25
"""How much more than the estimate should be free."""


def check_disk(plan: Plan, free: int | None = None) -> Finding:
    """What the run leaves in this tree at most, against the free disk (`free` bytes in place of a look).

    An output and DVC's cache of it are the same files: .dvc/config has them linked.
    """
    text_bytes, unknown = plan.text_bytes()
    embedding = plan.configs["embed"].pairs is not None
    outputs = plan.data_bytes(text_bytes) + plan.models_bytes + embedding * plan.model_bytes
    need = outputs + plan.checkpoint_bytes + (1 + len(plan.tasks) + embedding) * _LOGGED
    available = shutil.disk_usage(Path.cwd()).free if free is None else free
    text = (
        f"at most about {size(need)} for {size(text_bytes)} of text, what is made of it, models and checkpoints; "
        f"{size(available)} are free"
    )
    if unknown:
        text += f"; not counted, because its size is not known here: {', '.join(unknown)}"
    if need * _ROOM <= available:
        return ok("disk", text)
    remedy = "free some space, or set corpus.max_documents or a smaller preset in params.yaml"
    there = sum(map(bytes_below, (CORPUS.parent, PRETRAINED.parent))) if need > available else 0
    if there:
        text += f"; {size(there)} of that lie here, if they are of this run"
    return Finding(level="FAIL" if need - there > available else "warn", name="disk", text=text, remedy=remedy)


def bytes_below(directory: Path) -> int:
    """Of its files, links left out; 0 where a stage takes one of them away meanwhile."""
    files = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    with contextlib.suppress(OSError):
        return sum(path.stat().st_size for path in files)
    return 0


def check_places(sources: list[str], environment: Mapping[str, str] = os.environ) -> Finding:
    """The working tree, TMPDIR and the caches that the `sources` (and data sets) use: can they be written to?"""
    places = _places(sources, environment)
    problems = [found for label, (path, named) in places.items() if (found := _problem(label, path, named))]
    if problems:
        return Finding(
            level="FAIL" if any(found.level == "FAIL" for found in problems) else "warn",
            name="places",
            text="; ".join(found.text for found in problems),
            remedy="; ".join(found.remedy for found in problems),
        )
    new = [label for label, (path, _) in places.items() if not path.is_dir()]
    more = f" ({', '.join(new)} will be made)" if new else ""
    return ok("places", f"can be written to: {', '.join(places)}{more}")


def _problem(label: str, path: Path, named: bool) -> Finding | None:
    """What is wrong with one directory; one that is missing is, where the user has `named` it."""
    found = unwritable(path)
    if found and path.is_dir():
        text, remedy = f"{label} {path}: {found[1]}", f"make {path} writable or name another one"
        return fail("places", text, remedy)
    if found:
        text = f"{label} {path}: not there, and cannot be made ({found[0]}: {found[1]})"
        remedy = f"make {path} a directory that can be written to, or name another one"
        return fail("places", text, remedy)
    if named and not path.is_dir():
        remedy = f"mkdir -p {path}, or is a disk not mounted?"
        return warn("places", f"{label} {path}: not there", remedy)
    return None


def check_tracking(uri: str | None = None) -> Finding:
    """The MLflow store: a database file that can be written to, or a server that answers."""
    uri = uri or tracking_uri()
    shown = without_password(uri)
    if uri.startswith(("http://", "https://")):
        problem, remedy = _server_problem(uri), "start the MLflow server, or correct or unset MLFLOW_TRACKING_URI"
        if problem is None and (problem := _refusal(uri)):
            remedy = CREDENTIALS
    elif uri.startswith("sqlite:///"):
        path = Path(uri.removeprefix("sqlite:///"))
        problem, remedy = _database_problem(path), f"make {path} writable, or move it away to begin a new one"
    elif is_local_uri(uri) and not MLFLOW_ALLOW_FILE_STORE.get():
        problem = "a directory of files, which MLflow does not take any more"
        remedy = "unset MLFLOW_TRACKING_URI, or have it name sqlite:///FILE or a server"
    else:
        return ok("tracking", f"{shown}: this kind of store is not looked at before the run")
    if problem:
        return fail("tracking", f"MLflow at {shown}: {problem}", remedy)
    return ok("tracking", f"MLflow at {shown}")


def _places(sources: list[str], environment: Mapping[str, str]) -> dict[str, tuple[Path, bool]]:
    """Directories by what they are called, and whether the user has named them."""
    temporary = environment.get("TMPDIR")
    places = {
        "working tree": (Path.cwd(), False),
        "TMPDIR": (Path(temporary or "/tmp"), bool(temporary)),
    }
    if any(uri.startswith("hf://") for uri in sources):
        home = Path(environment.get("HF_HOME") or Path(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
        for name, below in (("HF_HUB_CACHE", "hub"), ("HF_DATASETS_CACHE", "datasets")):
            path = Path(environment.get(name) or home / below).expanduser()
            places[name] = (path, name in environment or "HF_HOME" in environment)
    if any(uri.startswith(("http://", "https://")) for uri in sources):
        places["BERTCORE_CACHE"] = (cache_directory(), "BERTCORE_CACHE" in environment)
    return places


def _server_problem(uri: str) -> str | None:
    try:
        # Without user and password, which urlopen takes for a part of the host: to be asked for them is an answer, too.
        with urllib.request.urlopen(f"{without_password(uri).rstrip('/')}/health", timeout=SECONDS):
            return None
    except urllib.error.HTTPError as error:
        # It answers; servers that ask for a password, or hosted ones, have no open page of this name.
        return None if error.code in (401, 403, 404) else f"answers with status {error.code}"
    except urllib.error.URLError as error:
        return f"nothing answers ({error.reason})"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"nothing answers ({error})"


def _refusal(uri: str) -> str | None:
    """Why a server that answers does not know this user, or shows them nothing: asked as the stages ask it, with their
    credentials."""
    try:
        MlflowClient(uri).search_experiments(max_results=1)
    except MlflowException as error:
        return first_line(error) if refuses(error) else None
    return None


def _database_problem(path: Path) -> str | None:
    if not path.exists():
        parent = path.absolute().parent
        if not parent.is_dir():
            return f"no directory {parent}"
        return f"cannot be made in {parent}" if unwritable(parent) else None
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=1.0)) as base:
            base.execute("BEGIN IMMEDIATE")  # the lock of a writer, which is given back at once
            base.rollback()
    except sqlite3.Error as error:
        return None if "locked" in str(error) else str(error)
    return None
