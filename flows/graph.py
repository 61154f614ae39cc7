"""The graph of dvc.yaml as DVC itself expands it. With `remote.py` and `ssh.py` all that knows DVC's Python interface.

DVC names stages relative to the working directory, which therefore is the project's root while it is asked.
"""

import contextlib
import difflib
import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dvc.exceptions import DvcException
from dvc.repo import Repo

from bertcore.errors import ConfigError
from tasks import params
from tasks.link_checks import all_files_here
from tasks.paths import DAMAGED_LOCK, LOCK

INPUTS_STAGE = "inputs"
"""The stage that links files of a machine. Its deps do not say what is in them, so that what a run cache or DVC's own
cache has of it would be put in the place of any files of the same names. Both are kept without it; a clone that has not
these files takes those of dvc.lock."""
_BUSY = re.compile(r" is busy, it is being blocked by:$")


class GraphError(Exception):
    """dvc.yaml cannot be read, or a stage was asked for that it does not declare. One line."""


class BusyError(GraphError):
    """Another dvc works on the same files."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of dvc.yaml, `matrix` expanded."""

    name: str
    """As `dvc repro` takes it: `pretrain`, `finetune@cola`."""
    upstream: tuple[str, ...] = ()
    """Names of the stages whose outputs it reads, sorted."""
    meta: dict[str, Any] = field(default_factory=dict)
    """The stage's `meta:`, the runtime policy. Editing it does not invalidate the stage."""


def read_graph(root: Path) -> list[Stage]:
    """All stages of the project, parents before children, otherwise in the order of dvc.yaml.

    Raises GraphError when dvc.yaml, params.yaml or dvc.lock does not parse or the graph has a cycle.
    """
    try:
        with contextlib.chdir(root), Repo() as repo:
            graph = repo.index.graph
            stages = [
                Stage(
                    name=node.addressing,
                    upstream=tuple(sorted(parent.addressing for parent in graph.successors(node))),
                    meta=dict(node.meta or {}),
                )
                for node in repo.index.stages
            ]
    except DvcException as error:
        if str(LOCK) in str(error):
            raise GraphError(DAMAGED_LOCK) from error
        raise GraphError(_fault_of_params(root) or f"dvc.yaml: {_one_line(error)}") from error
    except TypeError as error:  # of a matrix over what is no mapping
        raise GraphError(_fault_of_params(root) or f"params.yaml: {error}") from error
    return _sorted(stages)


def _fault_of_params(root: Path) -> str | None:
    """What is wrong with params.yaml, which DVC tells of dvc.yaml; None where it is sound."""
    try:
        params.task_entries({"finetune": None, **params.read(root)})
    except ConfigError as error:
        return str(error)
    return None


def unchanged(root: Path, stages: list[Stage]) -> set[str]:
    """Names of the stages that DVC would skip: neither they nor anything above them differ from dvc.lock.

    One status call takes about as long as one `dvc repro --single-item` of a stage that has nothing to do.
    """
    try:
        with contextlib.chdir(root), Repo(_wait_for_lock=True) as repo:
            changed = set(repo.status())
    except DvcException as error:
        kind = BusyError if busy(_said(error)) else GraphError
        raise kind(f"dvc status: {_one_line(error)}") from error
    clean: set[str] = set()
    for stage in stages:
        if stage.name not in changed and clean.issuperset(stage.upstream):
            clean.add(stage.name)
    return clean


def select(stages: list[Stage], targets: list[str] | None, without: Collection[str] = ()) -> list[Stage]:
    """The targets and everything above them; `finetune` means every `finetune@…`. None selects all.

    `without`: names of stages that are left out, and so is what only they need.

    Raises GraphError for a name that no stage has.
    """
    if targets is None:
        targets = [stage.name for stage in stages if stage.name not in without]
    by_name = {stage.name: stage for stage in stages}
    wanted: set[str] = set()
    queue = [name for target in targets for name in _matching(target, list(by_name))]
    while queue:
        name = queue.pop()
        if name not in wanted:
            wanted.add(name)
            queue.extend(parent for parent in by_name[name].upstream if parent not in without)
    return [
        replace(stage, upstream=tuple(parent for parent in stage.upstream if parent in wanted))
        for stage in stages
        if stage.name in wanted
    ]


def _matching(target: str, names: list[str]) -> list[str]:
    found = [name for name in names if name == target or name.startswith(f"{target}@")]
    if not found:
        close = difflib.get_close_matches(target, names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise GraphError(f"stages: {target!r} is not a stage of dvc.yaml; its stages are {', '.join(names)}{hint}")
    return found


def _sorted(stages: list[Stage]) -> list[Stage]:
    waiting, done = list(stages), dict[str, Stage]()
    while waiting:
        ready = next((stage for stage in waiting if all(name in done for name in stage.upstream)), None)
        assert ready is not None, "DVC refuses cyclic graphs"
        waiting.remove(ready)
        done[ready.name] = ready
    return list(done.values())


def busy(lines: Iterable[str]) -> str | None:
    """What DVC's message says of another dvc that works on the same files; None where it says something else."""
    following = iter(lines)
    if any(_BUSY.search(line) for line in following):
        return f"another dvc works on the same files: {next(following, '').strip()}; wait for it, then run this again"
    return None


def _one_line(error: BaseException) -> str:
    lines = _said(error)
    return busy(lines) or f"dvc: {' '.join(' '.join(lines).split())}"


def _said(error: BaseException) -> list[str]:
    """DVC nests its errors; the innermost names the place."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).splitlines()


def repro_command(name: str, root: Path) -> list[str]:
    """`dvc repro` of this stage of the tree `root` alone.

    Files that lie on this machine are linked, whatever DVC's caches have of them: `dvc commit` puts copies there, which
    would come back in the place of the links, and go on as they were while the files change.
    """
    forced = ["--force"] if name == INPUTS_STAGE and all_files_here(root) else []
    return [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", *forced, name]
