"""Values that no training could use are refused by name."""

from typing import Any

import pytest

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.finetune.config import RunConfig, TaskConfig


def test_defaults_need_only_the_data() -> None:
    task = parse(TaskConfig, {"format": "pydoc/topic", "data": "corpus"}, "params.yaml: finetune.tasks.topic")
    assert (task.sequence_length, task.batch_size, task.epochs) == (128, 32, 3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 0),
        ("epochs", 0),
        ("sequence_length", 4),
        ("learning_rate", 0.0),
        ("weight_decay", -0.1),
        ("warmup_ratio", 1.5),
        ("dropout", 1.0),
        ("beta2", 1.0),
        ("epsilon", 0.0),
        ("max_grad_norm", 0.0),
        ("max_train_examples", 0),
        ("n_best", 0),
        ("schedule", "liner"),
        ("optimizer", "adam"),
    ],
)
def test_impossible_values_are_named(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^params.yaml: finetune.tasks.x.{field}: found {value!r}"):
        parse(TaskConfig, {"format": "f", "data": "d", field: value}, "params.yaml: finetune.tasks.x")


def entry(**values: Any) -> TaskConfig:
    return parse(TaskConfig, {"format": "f", "data": "d", **values}, "params.yaml: finetune.tasks.x")


def test_single_values_are_one_run_and_lists_their_grid() -> None:
    assert entry(learning_rate=1e-4, epochs=2, seed=5).settings() == [
        [RunConfig(format="f", data="d", learning_rate=1e-4, epochs=2, seed=5)]
    ]
    settings = entry(learning_rate=[1e-4, 3e-4], epochs=[2, 3], seed=[1, 2, 3], dropout=0.2).settings()
    found = [[(task.learning_rate, task.epochs, task.seed) for task in runs] for runs in settings]
    assert found == [[(rate, epochs, seed) for seed in (1, 2, 3)] for rate in (1e-4, 3e-4) for epochs in (2, 3)]
    assert all(task.dropout == 0.2 for runs in settings for task in runs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": []}, r"x\.seed: found \[\], expected one or more values"),
        ({"seed": [1, 1]}, r"x\.seed: found \[1, 1\], expected one or more values, each of them once"),
        ({"learning_rate": [1e-4, -1.0]}, r"x\.learning_rate: found -1.0, expected more than 0"),
        ({"epochs": [2, 0]}, r"x\.epochs: found 0, expected at least 1"),
        ({"epochs": [2, 1.5]}, r"x\.epochs\[1\]: found 1.5 \(float\), expected integer"),
        *(
            ({"max_train_examples": 1, **chosen}, r"x\.max_train_examples: found 1 with several settings, .* raise it")
            for chosen in ({"learning_rate": [1e-3, 1e-4]}, {"early_choice": True}, {"null_threshold": "tuned"})
        ),
        ({"seed": "one"}, r"x\.seed: found 'one' \(str\), expected integer or list of integers"),
    ],
)
def test_impossible_values_of_a_list_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        entry(**values)


def test_a_warmup_ends_before_the_decay() -> None:
    assert RunConfig(format="f", data="d", schedule="wsd", warmup_ratio=0.8).warmup_ratio == 0.8
    with pytest.raises(ValueError, match=r"warmup_ratio: found 0.9 with schedule wsd, .* last 20% .* to 0.8 at most"):
        RunConfig(format="f", data="d", schedule="wsd", warmup_ratio=0.9)
