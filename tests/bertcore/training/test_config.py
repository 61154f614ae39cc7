"""Section `pretrain`: impossible values are named."""

import pytest

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.training.config import PretrainConfig


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"second_phase": {"share": 1.5}}, r"pretrain\.second_phase\.share: found 1\.5"),
        ({"init_from": "x", "model": {"preset": "base"}}, r"pretrain\.model\.preset: found 'base' beside init_from"),
        (
            {"init_from": "x", "head_warmup_steps": 9, "max_steps": 9},
            r"head_warmup_steps: found 9 beside .* fewer than max_steps \(9\)",
        ),
        ({"head_warmup_steps": -1}, "head_warmup_steps: found -1, expected 0 or more"),
        ({"loss_spike": float("nan")}, r"pretrain\.loss_spike: found nan, expected a number that is finite"),
        ({"learning_rate": float("inf")}, r"pretrain\.learning_rate: found inf, expected a number that is finite"),
        (
            {"model": {"preset": "tiny", "hidden_size": 100, "num_attention_heads": 3}},
            r"pretrain\.model\.num_attention_heads: found 3, expected a divisor of hidden_size \(100\)",
        ),
        ({"batch_size_start": 300}, r"batch_size_start: found 300, expected between 1 and batch_size \(256\)"),
        (
            {"batch_size_start": 8, "batch_ramp_share": 0.95, "second_phase": {}},
            r"batch_ramp_share: found 0\.95, .*; lower it to 0\.9 at most",
        ),
        ({"batch_ramp_share": 0.0}, r"batch_ramp_share: found 0\.0"),
        ({"head_learning_rate": 0.0}, r"head_learning_rate: found 0\.0, expected more than 0, or null"),
        ({"ema_decay": 1.0}, r"ema_decay: found 1\.0, expected 0 < decay < 1"),
        ({"decay_share": 0.0}, r"decay_share: found 0\.0"),
        ({"schedule": "wsd", "max_steps": 10, "decay_share": 0.01}, r"decay_share: found 0\.01 of 10 steps with"),
        ({"seed": -1}, r"seed: found -1, expected 0 <= seed < 2\^32"),
        ({"seed": 2**32}, r"seed: found 4294967296"),
        ({"learning_rate_floor": 1.0}, r"learning_rate_floor: found 1\.0"),
        ({"learning_rate_floor": 0.1, "schedule": "bert"}, r"learning_rate_floor: found 0\.1 with schedule bert"),
        (
            {"schedule": "wsd", "max_steps": 11_000, "warmup_steps": 10_000},
            r"warmup_steps: found 10000, .* last decay_share \(0\.2\) of 11000",
        ),
        ({"max_steps": -1}, r"pretrain\.max_steps: found -1, expected at least 1"),
        ({"momentum": 0.9}, r"momentum: found 0\.9 with optimizer adamw, expected muon"),
        ({"head_warmup_steps": 9}, r"head_warmup_steps: found 9 without init_from, where all weights are new"),
        ({"hidden_weight_decay": -0.1}, r"hidden_weight_decay: found -0\.1, expected 0 or more, or null"),
        ({"cautious_weight_decay": True}, "cautious_weight_decay: found true with optimizer adamw, expected muon"),
        ({"warmup_steps": 20, "max_steps": 10}, r"warmup_steps: found 20, expected between 0 and max_steps \(10\)"),
    ],
)
def test_impossible_values_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(PretrainConfig, values, "pretrain")


@pytest.mark.parametrize(("max_steps", "warmup"), [(1, 0), (100, 6), (1700, 102), (166_000, 9960), (1_000_000, 10_000)])
def test_a_training_of_any_length_has_a_warm_up_that_suits_it(max_steps: int, warmup: int) -> None:
    config = parse(PretrainConfig, {"max_steps": max_steps}, "pretrain")
    assert config.warmup == warmup and config.learning_rate_at(warmup) == config.learning_rate
    assert parse(PretrainConfig, {"max_steps": max_steps, "warmup_steps": 0}, "pretrain").warmup == 0


@pytest.mark.parametrize(("max_steps", "head_warmup"), [(1, 0), (9, 4), (400, 200), (10_000, 200)])
def test_new_heads_never_take_the_whole_training(max_steps: int, head_warmup: int) -> None:
    assert parse(PretrainConfig, {"init_from": "x", "max_steps": max_steps}, "pretrain").head_warmup == head_warmup


def test_the_learning_rate_ends_at_its_floor() -> None:
    given = {"schedule": "cosine", "learning_rate": 2e-3, "learning_rate_floor": 0.1, "warmup_steps": 2, "max_steps": 8}
    config = parse(PretrainConfig, given, "pretrain")
    assert [config.learning_rate_at(step) for step in (0, 1, 2, 8)] == pytest.approx([0, 1e-3, 2e-3, 2e-4])


def test_what_is_stable_does_not_depend_on_the_length() -> None:
    given = {"schedule": "wsd", "warmup_steps": 10, "max_steps": 100, "decay_share": 0.3}
    assert parse(PretrainConfig, given, "pretrain").stable_steps == 70
    assert parse(PretrainConfig, {**given, "second_phase": {}}, "pretrain").stable_steps is None
    assert parse(PretrainConfig, {**given, "schedule": "linear"}, "pretrain").stable_steps is None
