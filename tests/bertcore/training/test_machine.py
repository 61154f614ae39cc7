"""The accelerator of a process: what it is told elsewhere, and what it refuses."""

import pytest
import torch

from bertcore.errors import ConfigError, TrainingError
from bertcore.training.machine import make_accelerator


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


def test_independent_trainings_instead_of_joined_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTCORE_EXPECTED_PROCESSES", "4")
    with pytest.raises(TrainingError, match="started 1 joined processes, expected 4"):
        make_accelerator()
