"""What `finetune-flow` is asked for, looked at before anything begins. Imports nothing of Prefect."""

import contextlib
import re
from pathlib import Path

from bertcore.errors import ConfigError
from flows.environment import ROOT
from tasks.params import read, task_entries

SCORES = "finetuned"
"""The key of the artifact with the table of scores."""


def model_directory(model: str) -> Path:
    """Where `model` lies; `ValueError` where it is no Hugging Face directory."""
    with contextlib.suppress(OSError, RuntimeError):  # of a path that cannot be read, or of a user who is not there
        directory = (ROOT / Path(model).expanduser()).resolve()
        if (directory / "config.json").is_file():
            return directory
    remedy = "correct the path"
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", model):  # as names on the hub are
        remedy += f", or download it: hf download {model} --local-dir {model}"
    raise ValueError(
        f"parameter model: found {model!r}, expected a Hugging Face directory with a config.json, relative to {ROOT} "
        f"or absolute; {remedy}"
    )


def chosen_tasks(names: list[str] | None) -> list[str]:
    """The `names`, or all tasks of params.yaml; `ValueError` for one that is not there."""
    try:
        known = list(task_entries(read(ROOT)))
    except ConfigError as error:
        raise ValueError(str(error)) from None
    if not known:
        raise ValueError("params.yaml: finetune.tasks: found no tasks; name some, see docs/tasks.md")
    for name in names or []:
        if name not in known:
            raise ValueError(f"parameter tasks: found {name!r}, expected some of {', '.join(known)}, as in params.yaml")
    return names or known
