"""Which trainings have a stable phase in common."""

from pathlib import Path

import pytest

from bertcore.instances.config import MaskConfig
from bertcore.training.config import PretrainConfig
from tasks.training import process

STEADY, FALLING = MaskConfig(), MaskConfig(masked_lm_prob_start=0.3, duplicates=0, max_predictions_per_seq=None)


@pytest.fixture(autouse=True)
def inputs_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "checksum", lambda path: "same")


def directory(mask: MaskConfig = STEADY, **values: object) -> Path:
    defaults = {"schedule": "wsd", "warmup_steps": 10, "max_steps": 100}
    return process.stable_phases_of(PretrainConfig(**{**defaults, **values}), mask).directory


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


def test_none_where_the_share_of_masked_tokens_follows_the_length() -> None:
    assert directory(FALLING) != directory(FALLING, max_steps=200)


def test_their_checkpoints_are_not_those_of_a_training() -> None:
    config = PretrainConfig(schedule="wsd", warmup_steps=10, max_steps=100)
    assert process.checkpoints_of(config, STEADY).directory != directory()
