"""Section `pretrain`: recipes fill in what it leaves out, and impossible values are named."""

import pytest

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.training.config import PretrainConfig
from bertcore.training.recipes import RECIPES


def test_a_recipe_gives_what_the_section_leaves_out_and_the_section_wins() -> None:
    given = {
        "recipe": "bert-2018",
        "model": {"preset": "base"},
        "learning_rate": 2e-4,
        "second_phase": {"batch_size": 64},
    }
    config = parse(PretrainConfig, given, "params.yaml: pretrain")
    assert (config.optimizer, config.schedule, config.beta2) == ("bert_adam", "bert", 0.999)
    assert config.learning_rate == 2e-4
    assert (config.model.preset, config.model.hidden_act) == ("base", "gelu_new")
    assert config.second_phase is not None and (config.second_phase.share, config.second_phase.batch_size) == (0.1, 64)
    assert config.first_phase_steps == 900_000
    without = parse(PretrainConfig, {"recipe": "bert-2018", "second_phase": None}, "params.yaml: pretrain")
    assert without.second_phase is None and without.first_phase_steps == without.max_steps


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_is_a_sound_section(name: str) -> None:
    assert parse(PretrainConfig, {"recipe": name}, "pretrain").recipe == name


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"recipe": "bert-2019"}, r"pretrain\.recipe: found 'bert-2019'; did you mean 'bert-2018'\?"),
        ({"second_phase": {"share": 1.5}}, r"pretrain\.second_phase\.share: found 1\.5"),
        ({"init_from": "x", "model": {"preset": "base"}}, r"pretrain\.model\.preset: found 'base' beside init_from"),
        ({"warmup_steps": 20, "max_steps": 10}, r"warmup_steps: found 20, expected between 0 and max_steps \(10\)"),
    ],
)
def test_impossible_values_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(PretrainConfig, values, "pretrain")
