"""A stage that is killed anywhere and run again leaves the same bytes, and nothing else."""

import random
from pathlib import Path

import pytest

from tests.faults import stage_kills


@pytest.mark.slow
def test_every_stage_but_the_pretraining_is_killed_and_run_again(tmp_path: Path) -> None:
    root, dice = stage_kills.prepare(tmp_path / "tree", 600), random.Random(2)
    for stage in stage_kills.STAGES:
        assert len(stage_kills.kill(root, stage, 1, dice).seconds) == 1
