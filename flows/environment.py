"""The environment in which everything of this project runs: its own interpreter first, nothing reports home."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
"""The working tree: where dvc.yaml and params.yaml lie and where every stage runs."""

TELEMETRY_OFF = {
    "DO_NOT_TRACK": "true",  # Prefect and the hub take 1 or true, MLflow only true
    "DVC_NO_ANALYTICS": "1",
    "DVC_STUDIO_OFFLINE": "1",
    "ITERATIVE_DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
}

END_WITH_WORKER = "BERTCORE_END_WITH_WORKER"
"""The variable that has a flow run end when its worker ends."""

REMOTE = "BERTCORE_DVC_REMOTE"
"""The variable that names the DVC remote; `flows.remote` says what it may be."""

STORE = "MLFLOW_TRACKING_URI"
SQLITE = "sqlite:///"
OWN_STORE = f"{SQLITE}{ROOT / 'mlflow.db'}"
"""MLflow's store where `STORE` names none, as `tasks.tracking.store` has it in this tree."""
_PATHS = ("BERTCORE_ACCELERATE_CONFIG", "BERTCORE_CACHE", "HF_HOME")
"""Variables that name a file or a directory: relative to this tree, also where a run works in a tree of its own."""

LOOPBACK = ("127.0.0.1", "localhost")


def project_environment() -> dict[str, str]:
    """This process's environment, with the interpreter's own programs first on PATH and telemetry off.

    `python` in a stage's command is thereby the interpreter that runs the pipeline, activated or not. A store of MLflow
    in a file, and all files that variables name, are those of this tree also for runs in others, which are removed
    after them. Files and terminals are read and written as UTF-8 whatever the locale says.
    """
    environment = {**os.environ, **TELEMETRY_OFF, "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"}
    programs = str(Path(sys.executable).parent)
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    # A proxy of the machine must not stand between this project's own processes.
    for name in ("NO_PROXY", "no_proxy"):
        environment[name] = ",".join(dict.fromkeys([*filter(None, environment.get(name, "").split(",")), *LOOPBACK]))
    if (store := environment.get(STORE, "")).startswith(SQLITE):
        environment[STORE] = f"{SQLITE}{ROOT / store.removeprefix(SQLITE)}"
    environment |= {name: str(ROOT / Path(environment[name]).expanduser()) for name in _PATHS if environment.get(name)}
    environment["PATH"] = os.pathsep.join([programs, *(entry for entry in path if entry != programs)])
    return environment


UTF8 = {"encoding": "utf-8", "errors": "replace"}
"""How what the project's own programs say is read, whatever the locale of a worker that somebody has started."""


def run_to_end(
    command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, **more: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a command in `cwd`, with the project's environment or `env`, and give what it has said."""
    options: dict[str, Any] = {**UTF8, **more}
    environment = project_environment() if env is None else env
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False, **options)


def complaint(done: "subprocess.CompletedProcess[str]", line: int = -1) -> str:
    """What a command that failed has said, its last line or another; one that was killed may have said nothing."""
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[line]


def error_among(lines: Iterable[str], status: int) -> str:
    """What follows `error: ` in what a program of the project has said; where it is not there, its last line or exit
    status."""
    said = [line.strip() for line in lines if line.strip()]
    errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
    return [f"exit status {status}", *said, *errors][-1]
