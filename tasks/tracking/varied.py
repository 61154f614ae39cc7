"""What was varied against the commit, as a run shows it: by this, runs are told apart."""

import subprocess
from collections.abc import Mapping
from typing import Any

from bertcore.errors import ConfigError
from tasks import params

VARIED = "Varied"
"""The parameter that says it. MLflow's pages sort parameters by name, capitals first."""
_IN_NAME = 3


def against_commit(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """What of params.yaml (`values`) differs from the commit's: its keys, flattened, with their values now.

    None where there is no commit with a params.yaml that can be read.
    """
    shown = subprocess.run(["git", "show", f"HEAD:./{params.PARAMS}"], capture_output=True, text=True, check=False)
    try:
        before = params.flatten(params.parsed(shown.stdout))
    except ConfigError:
        return None
    now = params.flatten(values)
    return {name: now.get(name) for name in [*now, *(before.keys() - now.keys())] if now.get(name) != before.get(name)}


def of_stage(varied: Mapping[str, Any] | None, task: str) -> dict[str, Any] | None:
    """Without what other tasks are told."""
    own = f"finetune.tasks.{task}."
    if varied is None:
        return None
    return {key: value for key, value in varied.items() if not key.startswith("finetune.") or key.startswith(own)}


def as_param(varied: Mapping[str, Any] | None) -> dict[str, str]:
    """What was varied against the commit as one parameter, whose name MLflow's pages sort before all others."""
    if varied is None:
        return {}
    return {VARIED: ", ".join(f"{key}={value}" for key, value in varied.items()) or "nothing"}


def run_name(name: str, varied: Mapping[str, Any] | None, commit: str | None) -> str:
    """`name` with what was varied against the commit, by which runs are told apart."""
    if varied is None or commit is None:
        return name
    if not varied:
        return f"{name}: as in {commit[:7]}"
    shown = [f"{key.removeprefix('finetune.tasks.')}={value}" for key, value in list(varied.items())[:_IN_NAME]]
    more = [f"{len(varied) - _IN_NAME} more"] if len(varied) > _IN_NAME else []
    return f"{name}: {', '.join([*shown, *more])}"
