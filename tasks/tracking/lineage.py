"""What a stage was made from: its paths as dvc.yaml declares them, their DVC hashes, the git commit."""

import contextlib
import hashlib
import json
import subprocess
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

import bertcore
from bertcore.errors import ArtifactError
from tasks import params
from tasks.paths import DAMAGED_LOCK, LOCK, SOURCE

PIPELINE = Path("dvc.yaml")
_ROOT = Path(bertcore.__file__).parent.parent
_DATA = ("data", "models")
"""Where data lies; the code among a stage's deps is told by the git commit."""
_WAITS = (0.0, 0.1, 0.4, 1.0)
"""Seconds before each look at dvc.lock: while the DVC of a stage beside writes it, some hundredths, the file
ends early."""
_SMALL = 2**20
"""Bytes: all code and parameters are below."""


def stage_paths(stage: str, task: str | None) -> tuple[list[str], list[str]]:
    """The deps and outs of a stage (of a matrix stage for `task`), as written in dvc.yaml."""
    return _named(stage, task, "deps"), _named(stage, task, "outs", "metrics", "plots")


def stage_params(stage: str, task: str | None) -> list[str]:
    """The keys of params.yaml that a stage depends on, dotted."""
    return _named(stage, task, "params")


def _named(stage: str, task: str | None, *kinds: str) -> list[str]:
    definition = _load(PIPELINE)["stages"][stage]
    entries = [entry for kind in kinds for entry in definition.get(kind, [])]
    names = [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]
    return [name.replace("${key}", task or "") for name in names]


def code_of(stage: str) -> str:
    """A hash of the packages and modules of `bertcore` that dvc.yaml names as what decides what `stage` computes.

    Without those that check and describe what came of it: a training is not lost to a mended gate or card.
    """
    names = [dep for dep in stage_paths(stage, None)[0] if dep.startswith("bertcore/")]
    return code_hash(_ROOT, [name for name in names if not name.startswith("bertcore/export/")])


def code_hash(root: Path, names: Iterable[str]) -> str:
    """A hash of every source file that one of `names`, below `root`, is or holds."""
    digest = hashlib.sha256()
    paths = [root / name for name in names]
    files = {file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))}
    for file in sorted(files):
        digest.update(file.relative_to(root).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def recorded_hashes() -> dict[str, str]:
    """path -> hash of everything that dvc.lock says a finished stage has written."""
    if not LOCK.is_file():
        return {}
    for wait in _WAITS:
        time.sleep(wait)
        with contextlib.suppress(YAMLError, AttributeError, KeyError, TypeError):
            stages = _load(LOCK).get("stages", {}).values()
            return {out["path"]: out["md5"] for stage in stages for out in stage.get("outs", []) if "md5" in out}
    raise ArtifactError(DAMAGED_LOCK)


def data_hashes(paths: list[str]) -> dict[str, str]:
    """path -> DVC hash of those of `paths` that are data: from dvc.lock, or computed where it has none, or where a note
    stands in the place of an out that the run leaves out.

    Of a part of an out (a link below data/inputs) dvc.lock knows only what an earlier run read, which may be outdated:
    its hash is computed, which costs little beside the stage's own work.
    """
    recorded = recorded_hashes()
    data = [path for path in paths if path in recorded or (Path(path).parts[0] in _DATA and Path(path).exists())]
    made_here = [path for path in data if path not in recorded or is_unused(Path(path))]
    return {path: dvc_hash(Path(path)) if path in made_here else recorded[path] for path in data}


def is_unused(path: Path) -> bool:
    """Whether it stands for an input that the parameters do not name, such as a teacher."""
    source = path / SOURCE
    return source.is_file() and json.loads(source.read_text(encoding="utf-8"))["uri"] is None


def dvc_hash(path: Path) -> str:
    """The hash that DVC records for a file or a directory."""
    if path.is_file():
        return _md5(path)
    files = sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
    listing = [{"md5": _md5(file), "relpath": name} for name, file in files]
    return hashlib.md5(json.dumps(listing, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"


def fingerprint(paths: list[str], keys: Iterable[str] = ()) -> dict[str, Any]:
    """What tells of every file below `paths`, and of the values of params.yaml under `keys`, whether it was edited.

    Of a small file its hash, so that `touch` or a branch switched to and back are no edits; of a large one, which is
    data, its size and time of change. The values are compared as DVC does: their order and comments are no edits.
    """
    files = (
        file for path in paths for file in ([Path(path)] if Path(path).is_file() else sorted(Path(path).rglob("*")))
    )
    found = {str(file): _state(file) for file in files if file.is_file() and "__pycache__" not in file.parts}
    written = params.written() if keys else None
    return found | {f"{params.PARAMS}: {key}": _value(written, key) for key in keys}


def _value(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _state(file: Path) -> str:
    state = file.stat()
    return _md5(file) if state.st_size <= _SMALL else f"{state.st_size} bytes at {state.st_mtime_ns}"


def check_unchanged(before: dict[str, Any], paths: list[str], keys: Iterable[str] = ()) -> None:
    """Raise `ArtifactError` if what `fingerprint` told was edited while the stage ran: DVC would record what stands
    there now with outputs of before."""
    after = fingerprint(paths, keys)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        raise ArtifactError(
            f"{changed[0]}: changed while the stage was running, so its result belongs to neither version; run "
            "the stage again, with what stood there before if a training is to be kept"
        )


def git_commit(directory: Path = Path()) -> str | None:
    """The commit of the working tree around `directory`, with `-dirty` where tracked files differ from it; None outside
    of git."""
    command = ["git", "-C", str(directory), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or None


def _load(path: Path) -> Any:
    return _parsed(path.read_text(encoding="utf-8"))


@cache
def _parsed(text: str) -> Any:
    """By libyaml: dvc.lock takes a tenth of a second else. A stage asks for it several times."""
    return YAML(typ="safe").load(text)


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
