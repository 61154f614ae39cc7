"""Values that no optimizer could use are refused by name, in the section of every training."""

from typing import Any

import pytest

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.finetune.config import TaskConfig
from bertcore.training.config import PretrainConfig


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("learning_rate", 0.0, "more than 0, such as 1e-4"),
        ("learning_rate", float("nan"), "a number that is finite; correct the value"),
        ("weight_decay", -0.1, "0 or more, such as 0.01"),
        ("epsilon", 0.0, "more than 0, such as 1e-6"),
        ("max_grad_norm", 0.0, "more than 0, or null for no bound"),
        ("beta1", 1.0, "0 <= beta1 < 1, such as 0.9"),
        ("beta2", -0.1, "0 <= beta2 < 1, such as 0.9"),
        ("momentum", 1.0, "0 <= momentum < 1, such as 0.9"),
        ("schedule", "liner", "did you mean 'linear'? Expected one of: bert, constant, cosine, linear, wsd"),
        ("optimizer", "moun", "did you mean 'muon'? Expected one of: adamw, bert_adam, lamb, muon"),
    ],
)
@pytest.mark.parametrize("config_class", [PretrainConfig, TaskConfig])
def test_impossible_values_are_named(config_class: type, field: str, value: Any, expected: str) -> None:
    needed = {"format": "f", "data": "d"} if config_class is TaskConfig else {}
    with pytest.raises(ConfigError) as error:
        parse(config_class, {**needed, field: value}, "params.yaml: x")
    message = str(error.value)
    assert message.startswith(f"params.yaml: x.{field}: found {value!r}") and message.endswith(expected)


def test_no_bound_on_the_gradient_is_allowed() -> None:
    assert parse(PretrainConfig, {"max_grad_norm": None}, "x").max_grad_norm is None


def test_each_training_has_its_own_peak() -> None:
    task = parse(TaskConfig, {"format": "f", "data": "d"}, "x")
    assert (PretrainConfig().learning_rate, task.learning_rate) == (1e-4, 3e-4)
