"""A training that is killed anywhere and started again gives the bits of one that was not."""

import random
import shutil
from pathlib import Path

import pytest

from tests.faults.trainings import Training, assert_equal, params, prepare


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_kills_change_no_bit(tmp_path: Path) -> None:
    """Dropout on, four micro-batches a step, static masks, several epochs."""
    environment = {"BERTCORE_MICRO_BATCH": "3"}
    whole = Training(prepare(tmp_path / "whole", params(max_steps=60)), environment=environment)
    shutil.copytree(whole.root, tmp_path / "killed")
    killed = Training(tmp_path / "killed", environment=environment)
    assert whole.finish() == 0
    dice = random.Random(1)
    kills = [killed.kill(dice, longest=0.2) for _ in range(3)]
    assert all(kills), "a training had ended before it was killed: lengthen it"
    assert killed.finish() == 0
    assert killed.resumed == sorted(killed.resumed) and len(killed.resumed) == 3
    assert_equal(killed, whole)
