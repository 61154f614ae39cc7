"""What was varied against the commit, as a run shows it: by this, runs are told apart."""

from collections.abc import Mapping
from typing import Any

VARIED = "Varied"
"""The parameter that says it. MLflow's pages sort parameters by name, capitals first."""
_IN_NAME = 3


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


def telling(name: str, varied: Mapping[str, Any] | None, commit: str | None) -> str:
    """`name` with what was varied against the commit: by it runs are told apart."""
    if varied is None or commit is None:
        return name
    if not varied:
        return f"{name}: as in {commit[:7]}"
    shown = [f"{key.removeprefix('finetune.tasks.')}={value}" for key, value in list(varied.items())[:_IN_NAME]]
    more = [f"{len(varied) - _IN_NAME} more"] if len(varied) > _IN_NAME else []
    return f"{name}: {', '.join([*shown, *more])}"
