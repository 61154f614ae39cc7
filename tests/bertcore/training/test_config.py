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
        ({"warmup_steps": 20, "max_steps": 10}, r"warmup_steps: found 20, expected between 0 and max_steps \(10\)"),
    ],
)
def test_impossible_values_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(PretrainConfig, values, "pretrain")
