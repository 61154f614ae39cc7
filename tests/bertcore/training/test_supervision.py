"""When checkpoints are written; a stable phase is trained once for trainings of several lengths, and each has the bits
that it has alone."""

from pathlib import Path

import pytest
import torch

from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.loop import Pretraining
from tests.bertcore.training.test_loop import config, training, weights


def wsd(steps: int) -> PretrainConfig:
    return config(schedule="wsd", max_steps=steps, decay_share=0.25)


def run_in(directory: Path, steps: int, stable: Path | None = None) -> Pretraining:
    directory.mkdir()
    run = training(directory, wsd(steps), stable=stable and Checkpoints(stable))
    run.run()
    return run


def assert_same(one: Pretraining, other: Pretraining) -> None:
    assert one.state.history.curves == other.state.history.curves
    for name, tensor in weights(one).items():
        assert torch.equal(weights(other)[name], tensor), name


@pytest.mark.parametrize(("writing", "expected"), [(0.0, [4, 8, 12, 13]), (0.125, [4, 11, 13])])
def test_slow_checkpoints_take_at_most_a_fiftieth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writing: float, expected: list[int]
) -> None:
    now, saved, save = 0.0, [], Checkpoints.save

    def pass_a_second(_step: int, metrics: dict[str, float]) -> None:
        nonlocal now
        now += "train/loss" in metrics

    def save_slowly(self: Checkpoints, step: int, state: dict[str, object]) -> None:
        nonlocal now
        now += writing
        saved.append(step)
        save(self, step, state)

    monkeypatch.setattr(Checkpoints, "save", save_slowly)
    settings = config(max_steps=13, logging_steps=1, checkpoint_seconds=3)
    training(tmp_path, settings, pass_a_second, clock=lambda: now).run()
    assert saved == expected


def test_a_longer_training_goes_on_from_the_stable_phase_of_a_shorter_one(tmp_path: Path) -> None:
    stable = tmp_path / "stable"
    short = run_in(tmp_path / "short", 8, stable)
    longer = run_in(tmp_path / "longer", 16, stable)
    assert short.state.resumed_from is None and longer.state.resumed_from == {"step": 6, "run_id": ""}
    assert_same(longer, run_in(tmp_path / "alone", 16))


def test_a_shorter_training_takes_only_what_is_stable_in_its_own_length(tmp_path: Path) -> None:
    stable = tmp_path / "stable"
    run_in(tmp_path / "first", 8, stable)
    run_in(tmp_path / "second", 16, stable)
    shorter = run_in(tmp_path / "shorter", 12, stable)
    assert shorter.state.resumed_from == {"step": 6, "run_id": ""}
    assert_same(shorter, run_in(tmp_path / "alone", 12))
    assert run_in(tmp_path / "shortest", 4, stable).state.resumed_from is None


def test_other_schedules_have_no_phase_in_common(tmp_path: Path) -> None:
    run = training(tmp_path, config(), stable=Checkpoints(tmp_path / "stable"))
    run.run()
    assert not (tmp_path / "stable").exists()
