"""How long threads spin while they wait, as the OpenMP library of every process that computes has understood it."""

import os
import subprocess
import sys

import pytest

import bertcore
from tests.import_closure import ROOT


def understood(statement: str, **given: str) -> list[str]:
    """What the libraries that torch loads say of their spin count, each once."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    environment |= {"OMP_DISPLAY_ENV": "verbose", "PYTHONPATH": str(ROOT), **given}
    command = [sys.executable, "-c", statement]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stderr
    return sorted({line.split("'")[1] for line in said.splitlines() if "GOMP_SPINCOUNT" in line})


@pytest.mark.parametrize(
    "module", ["tasks.training.process", "tasks.finetune", "bertcore.commands.embed", "benchmarks.machine"]
)
def test_every_process_that_computes_has_it_before_torch(module: str) -> None:
    assert understood(f"import {module}") == [bertcore.SPIN_COUNT]


@pytest.mark.parametrize(
    "given", [{"GOMP_SPINCOUNT": "77"}, {"OMP_WAIT_POLICY": "passive"}], ids=["spin count", "wait policy"]
)
def test_who_sets_a_variable_decides(given: dict[str, str]) -> None:
    assert bertcore.SPIN_COUNT not in understood("import bertcore, torch", **given)
    assert understood("import bertcore, torch", **given) == understood("import torch", **given)


def test_the_tests_themselves_have_it() -> None:
    assert {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
