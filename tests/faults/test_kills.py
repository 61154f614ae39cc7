"""A training that is killed anywhere and started again gives the bits of one that was not."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.faults.trainings import Training, assert_equal, params, prepare
from tests.faults.variants import variant


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        params(max_steps=60),
        variant("electra", max_steps=60),
        variant("deberta-v3", max_steps=60),
        variant("distilbert", max_steps=60),
    ],
    ids=["static masks", "two models", "two models with a difference", "a teacher"],
)
def test_three_kills_change_no_bit(values: dict[str, Any], tmp_path: Path) -> None:
    """Dropout on, three micro-batches a step, several epochs."""
    environment = {"BERTCORE_MICRO_BATCH": "3"}
    whole = Training(prepare(tmp_path / "whole", values), environment=environment)
    shutil.copytree(whole.root, tmp_path / "killed")
    killed = Training(tmp_path / "killed", environment=environment)
    assert whole.finish() == 0
    dice = random.Random(1)
    kills = [killed.kill(dice, longest=0.2) for _ in range(3)]
    assert all(kills), "a training had ended before it was killed: lengthen it"
    assert killed.finish() == 0
    assert killed.resumed == sorted(killed.resumed) and len(killed.resumed) == 3
    assert_equal(killed, whole)
