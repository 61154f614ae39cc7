"""pyproject.toml against the locks and the imports: what the code needs is declared, and the locks hold it."""

import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.import_closure import ROOT, imported_modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEPENDENCIES = PROJECT["project"]["dependencies"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
DECLARED = {
    "requirements.lock": DEPENDENCIES,
    "requirements-onnx.lock": EXTRAS["onnx"],
    "requirements-dask.lock": EXTRAS["dask"],
    "requirements-remote.lock": EXTRAS["remote"],
    "requirements-servers.lock": EXTRAS["servers"],
    "requirements-infra.lock": [*PROJECT["dependency-groups"]["infra"], *EXTRAS["remote"], *EXTRAS["servers"]],
    "requirements-dev.lock": [*PROJECT["dependency-groups"]["dev"], *EXTRAS["onnx"], *EXTRAS["dask"]],
}
"""Lock -> what it must satisfy; all but the first are installed on top of it."""

PACKAGES = ("bertcore", "tasks", "flows")
LAZY = {"transformers", "dvc_ssh"}
"""What the packages use only where it happens to be installed."""


def pins(lock: str) -> dict[str, str]:
    lines = (ROOT / lock).read_text().splitlines()
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def distribution_names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


@pytest.mark.parametrize("lock", DECLARED)
def test_locks_satisfy_what_is_declared(lock: str) -> None:
    locked = pins("requirements.lock") | pins(lock)
    for requirement in map(Requirement, DECLARED[lock]):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{lock}: no {requirement.name}"
        assert requirement.specifier.contains(version, prereleases=True), f"{lock}: {version}, expected {requirement}"


@pytest.mark.parametrize("lock", [lock for lock in DECLARED if lock != "requirements.lock"])
def test_no_lock_contradicts_another(lock: str) -> None:
    first, second = pins("requirements.lock"), pins(lock)
    assert {name: version for name, version in second.items() if first.get(name, version) != version} == {}


def test_every_import_is_declared_and_every_declared_distribution_imported() -> None:
    files = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    modules = {module.split(".")[0] for file in files for module in imported_modules(file)}
    foreign = modules - sys.stdlib_module_names - set(PACKAGES) - LAZY
    of_module = packages_distributions()
    # A module that several distributions bring (a namespace, such as `ruamel`) needs one of them.
    declared = distribution_names([*DEPENDENCIES, *EXTRAS["onnx"], *EXTRAS["dask"]])
    candidates = {module: set(map(canonicalize_name, of_module[module])) for module in foreign}
    assert {module for module, names in candidates.items() if not names & declared} == set()
    idle = distribution_names(DEPENDENCIES) - set().union(*candidates.values())
    assert idle == set()


def test_types_are_marked_and_the_licence_is_there() -> None:
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in Path(ROOT / PROJECT["project"]["license-files"][0]).read_text()
