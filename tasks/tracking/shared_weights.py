"""Weights of logged models that take no disk of their own: each is another name of a file of the output, or of DVC's
cache."""

import contextlib
import filecmp
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from bertcore.files import alone_in, write_json
from tasks.paths import CHECKPOINTS
from tasks.tracking import lineage

WEIGHTS = "*.safetensors"
_MARKS = CHECKPOINTS / "logged"
"""What `share_with_dvc` is still to look at: a file for each output whose weights were logged."""


def weights_of(directory: Path) -> list[Path]:
    """All files with weights below `directory`, sorted."""
    return sorted(directory.rglob(WEIGHTS))


def link(source: Path, target: Path) -> None:
    """Make `target` a second name of the file `source`; a copy where the file system has no such names."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def remember(logged: Path, directory: Path, digest: str) -> None:
    """Have `share_with_dvc` look at the weights in `logged`, which are those of the output `directory`."""
    values = {"directory": str(directory), "hash": digest, "logged": str(logged.absolute())}
    write_json(_MARKS / f"{directory.name}.json", values)


def share_with_dvc() -> None:
    """Have logged weights be the files of DVC's cache, as soon as these are there.

    Where the cache holds the same bytes already when a stage has ended, or lies on another disk, DVC makes the output a
    link to its own file: the one that the logged model shares with the stage would then be a second copy. A later stage
    puts a link in its place.
    """
    if not _MARKS.is_dir():
        return
    with alone_in(CHECKPOINTS):
        recorded = lineage.recorded_hashes()
        for mark in _MARKS.glob("*.json"):
            with contextlib.suppress(OSError):  # it saves disk, and is not worth a stage
                _share(mark, recorded)


def _share(mark: Path, recorded: Mapping[str, str]) -> None:
    named = json.loads(mark.read_text(encoding="utf-8"))
    if recorded.get(named["directory"]) != named["hash"]:
        return
    directory = Path(named["directory"])
    for weights in weights_of(directory):
        _replace(Path(named["logged"]) / weights.relative_to(directory), weights.resolve())
    mark.unlink()


def _replace(logged: Path, cached: Path) -> None:
    """Make `logged` a name of `cached`, if it has the same bytes and the file system can."""
    if not logged.is_file() or logged.samefile(cached) or not filecmp.cmp(logged, cached, shallow=False):
        return
    beside = logged.with_name(f".{logged.name}")
    beside.unlink(missing_ok=True)
    try:
        os.link(cached, beside)
    except OSError:
        return
    beside.replace(logged)
