"""Clones of this repository, in which measurements run the pipeline with parameters of their own."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from flows.environment import ROOT, project_environment
from tasks.variation import vary

DIRECTORY = Path(".benchmarks")
_YAML = YAML(typ="safe", pure=True)


def place_of(file: Path, given: Path | None) -> Path:
    """Of the clone in which what `file` describes is measured, unless it is `given`."""
    return (given or DIRECTORY / file.stem).resolve()


def make_clone(place: Path) -> bool:
    """Clone the last commit, unless `place` is there; whether it was made now."""
    if place.exists():
        return False
    subprocess.run(["git", "clone", "--quiet", ROOT, place], check=True)
    return True


def restore_params(clone: Path) -> None:
    """As they were committed."""
    subprocess.run(["git", "checkout", "--quiet", "params.yaml"], cwd=clone, check=True)


def vary_params(clone: Path, changes: Mapping[str, Any]) -> None:
    """Make `changes`, by dotted key, to the committed params: a killed measurement has left its own."""
    restore_params(clone)
    file = clone / "params.yaml"
    values = _YAML.load(file)
    vary(values, changes)
    _YAML.dump(values, file)


def repro(clone: Path, *stages: str, quiet: bool = False) -> None:
    """`dvc repro`; with `quiet`, stdout is left to the rows of a table."""
    command = [sys.executable, "-m", "dvc", *(["--quiet"] if quiet else []), "repro", *stages]
    subprocess.run(command, cwd=clone, check=True, env=project_environment(), stdout=sys.stderr if quiet else None)
