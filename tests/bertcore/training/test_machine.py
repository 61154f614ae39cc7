"""The accelerator of a process: what it is told elsewhere, and what it refuses."""

import os
import subprocess
import sys

import pytest
import torch

from bertcore.errors import ConfigError, TrainingError
from bertcore.training.machine import make_accelerator
from tests.import_closure import ROOT
from tests.samples import free_port


def test_float16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    with pytest.raises(ConfigError, match="found mixed_precision 'fp16', expected bf16 or no"):
        make_accelerator()


@pytest.mark.usefixtures("no_accelerator")
def test_gradients_are_not_divided_by_what_accelerate_is_told_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    weight = torch.ones(1, requires_grad=True)
    make_accelerator().backward(2 * weight.sum())
    assert weight.grad == 2


JOINED = """
import os, torch
from torch import distributed
os.environ["ACCELERATE_USE_CPU"] = "true"
from bertcore.training.machine import make_accelerator
accelerator = make_accelerator()
model = accelerator.prepare(torch.nn.Linear(3, 2))
accelerator.backward(model(torch.ones(1, 3)).sum())
storages = {parameter.grad.untyped_storage().data_ptr() for parameter in model.parameters()}
distributed.destroy_process_group()
raise SystemExit(len(storages) != 1)
"""


def test_gradients_are_held_once_where_processes_exchange_them() -> None:
    """All in one storage, that of the exchange."""
    shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    own = [shared | {"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    processes = [subprocess.Popen([sys.executable, "-c", JOINED], cwd=ROOT, env=each) for each in own]
    assert [process.wait(60) for process in processes] == [0, 0]


def test_independent_trainings_instead_of_joined_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTCORE_EXPECTED_PROCESSES", "4")
    with pytest.raises(TrainingError, match="started 1 joined processes, expected 4"):
        make_accelerator()
