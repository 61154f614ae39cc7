"""Parts that a bare machine lacks: a test that needs one is skipped with what to install."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

PROGRAMS = {
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "munged": "munge",
    "postgres": "postgresql",
    "redis-server": "redis-server",
    "docker": "docker.io",
    "kubectl": "kubernetes-client",
    "sshd": "openssh-server",
}
"""Program -> the package of Debian and Ubuntu that has it."""
ASKED = "BERTCORE_TEST_INFRA"
"""The variable by which `make test-infra` asks for the tests that start programs of this machine."""
DIRECTORIES = ["/usr/sbin", "/sbin", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))]
"""Where Debian puts programs beside PATH."""


def needs_module(name: str, *more: str) -> None:
    """Skip the test module that calls this where one of these Python modules is not installed."""
    for module in (name, *more):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module}: pip install -r requirements-infra.lock", allow_module_level=True)


def needs_program(name: str) -> str:
    """The program's path; the test (or the module) that calls this is skipped where there is none, and unless
    `make test-infra` asks for it: servers that are there for another purpose are nobody's to test with."""
    if ASKED not in os.environ:
        pytest.skip(f"needs {name}: run by `make test-infra`", allow_module_level=True)
    for directory in (None, *DIRECTORIES):
        if found := shutil.which(name, path=directory):
            return found
    pytest.skip(f"no {name}: apt-get install {PROGRAMS[name]}", allow_module_level=True)
