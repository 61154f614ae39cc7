"""The whole stage, with launcher and processes: asked to stop, or with one of them killed."""

import signal
from pathlib import Path

import pytest

from tests.faults.stages import ENDLESS, RunningStage
from tests.faults.trainings import Training, prepare


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("stage") / "tree", ENDLESS)


@pytest.mark.slow
def test_asked_to_stop_it_leaves_a_checkpoint_and_a_status_that_says_so(root: Path) -> None:
    stage = RunningStage(Training(root)).at_work()
    assert stage.harm(stage.process.pid, signal.SIGTERM) == 75
    step = stage.training.steps()[-1]
    assert stage.said("stopped: ").startswith(f"stopped: at step {step} of 100000, with a checkpoint in ")
    assert "run the same command again" in stage.said("stopped: ")
    assert stage.checkpoint_seconds > 0, "the checkpoint came after the signal"
    assert stage.clean(), stage.log.read_text()


@pytest.mark.slow
def test_one_of_two_killed_ends_both_and_the_stage_says_why(root: Path) -> None:
    stage = RunningStage(Training(root, world=2)).at_work()
    assert stage.harm(stage.ranks[1].pid, signal.SIGKILL) == 1
    assert "run the same command again to go on from the last checkpoint" in stage.said("error: ")
