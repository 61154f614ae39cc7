"""Which trainings have a stable phase in common, and what is said of checkpoints of others."""

from dataclasses import replace
from pathlib import Path

import pytest

from bertcore.instances.config import MaskConfig
from bertcore.training.config import PretrainConfig
from tasks.training import naming
from tasks.training.naming import TrainingNames

STEADY, FALLING = MaskConfig(), MaskConfig(masked_lm_prob_start=0.3, duplicates=0, max_predictions_per_seq=None)


@pytest.fixture(autouse=True)
def inputs_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "checksum", lambda path: "same")


def directory(mask: MaskConfig = STEADY, **values: object) -> Path:
    defaults = {"schedule": "wsd", "warmup_steps": 10, "max_steps": 100}
    stable = TrainingNames(PretrainConfig(**{**defaults, **values}), mask).stable_phases
    assert stable is not None
    return stable.directory


def own_directory(config: PretrainConfig) -> Path:
    return TrainingNames(config, STEADY).checkpoints.directory


def test_those_that_differ_in_their_length_only() -> None:
    assert directory() == directory(max_steps=1000) == directory(decay_share=0.5)
    assert directory() != directory(learning_rate=3e-4)
    assert directory() != directory(seed=2)
    assert directory() != directory(STEADY, warmup_steps=11)


def test_the_default_warm_up_follows_the_length() -> None:
    assert directory(warmup_steps=None) != directory(warmup_steps=None, max_steps=200)
    assert directory(warmup_steps=None) == directory(warmup_steps=6)


def test_a_growing_batch_must_grow_over_as_many_steps() -> None:
    growing = {"batch_size_start": 64, "batch_ramp_share": 0.5}
    assert directory(**growing) != directory(**growing, max_steps=200)
    assert directory(**growing) == directory(**growing | {"batch_ramp_share": 0.25}, max_steps=200)


def test_of_one_length_where_the_share_of_masked_tokens_follows_it() -> None:
    assert directory(FALLING) != directory(FALLING, max_steps=200)
    assert directory(FALLING) == directory(FALLING, decay_share=0.5)


def test_new_heads_that_are_trained_alone_for_as_long() -> None:
    assert directory(init_from="x") != directory(init_from="x", max_steps=1000)
    assert directory(init_from="x", max_steps=500) == directory(init_from="x", max_steps=1000)


def test_other_schedules_have_none() -> None:
    assert TrainingNames(PretrainConfig(max_steps=100), STEADY).stable_phases is None


def test_a_training_that_keeps_encoders_makes_all_of_its_steps() -> None:
    """Those before the end of another one's stable phase would be missing."""
    keeping = PretrainConfig(schedule="wsd", warmup_steps=10, max_steps=100, keep_every=10)
    assert TrainingNames(keeping, STEADY).stable_phases is None
    assert keeping.kept_steps == range(10, 100, 10) and not PretrainConfig(max_steps=100).kept_steps


def test_their_checkpoints_are_not_those_of_a_training() -> None:
    config = PretrainConfig(schedule="wsd", warmup_steps=10, max_steps=100)
    assert own_directory(config) != directory()


def test_a_training_goes_on_with_another_rhythm_of_saving_and_after_the_remedy_of_a_divergence() -> None:
    config = PretrainConfig(max_steps=100)
    same = {"checkpoint_steps": 7, "checkpoint_seconds": 60.0, "skip_on_divergence": True}
    changed = replace(config, **same)
    assert own_directory(config) == own_directory(changed)
    slower = replace(config, learning_rate=1e-5)
    assert own_directory(config) != own_directory(slower)
    assert directory() == directory(**same)


@pytest.mark.parametrize("kept", ["own", "stable"])
def test_checkpoints_of_others_are_told_where_a_training_begins_anew(
    kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(naming, "CHECKPOINTS", tmp_path)
    caplog.set_level("INFO")
    names = TrainingNames(PretrainConfig(schedule="wsd", warmup_steps=10, max_steps=100), STEADY)
    assert names.stable_phases is not None
    other, of_others, finished = (tmp_path / "pretrain" / name for name in ("other", "stable-other", "finished"))
    for place in (other, of_others, finished):
        (place / "step-00000007").mkdir(parents=True)
    (finished / "finished.json").write_text("{}")
    names.tell_of_others()
    assert f"begun anew; those in {other} are of others" in caplog.text
    caplog.clear()
    saved = names.checkpoints if kept == "own" else names.stable_phases
    (saved.directory / "step-00000001").mkdir(parents=True)
    names.tell_of_others()
    assert not caplog.text, "it goes on"
