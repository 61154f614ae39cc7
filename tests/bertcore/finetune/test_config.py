"""Values that no training could use are refused by name."""

from typing import Any

import pytest

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.finetune.config import TaskConfig


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
