"""Sums over micro-batches as the numbers that are reported."""

import pytest
import torch

from bertcore.objectives.objective import binary_sums
from bertcore.training.control import Control
from bertcore.training.step import Tally


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_the_majority_of_yes_and_no_is_that_of_all_batches(share: float) -> None:
    labels, tally = torch.arange(100) < 100 * share, Tally()
    for part in (labels[:30], labels[30:]):
        tally.add({"repeats": binary_sums(torch.ones(len(part)), part)})
    found = tally.metrics(Control(1), "eval", {"repeats": 1.0})
    assert found["eval/repeats_majority"] == pytest.approx(0.9)
    assert found["eval/repeats_accuracy"] == pytest.approx(share)
