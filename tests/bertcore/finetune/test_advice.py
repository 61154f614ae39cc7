"""Each usual mistake is one line, and what is usual is none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tokenizers import Tokenizer

from bertcore.data.wordpiece import SPECIAL_TOKENS, make_tokenizer
from bertcore.finetune.advice import advice
from bertcore.finetune.config import RunConfig
from bertcore.model.config import ModelConfig

BASE = ModelConfig(preset="base").build(30_522)


def cased(lowercase: bool) -> Tokenizer:
    entries = [*SPECIAL_TOKENS, "[unused1]", "Berlin", "##lin", "city"]
    return make_tokenizer({entry: index for index, entry in enumerate(entries)}, lowercase=lowercase)


def test_usual_runs_need_no_advice(tokenizer: Tokenizer, make_task: Callable[..., RunConfig]) -> None:
    assert advice(make_task(learning_rate=5e-5), BASE, tokenizer, 2_500) == []
    assert advice(make_task(learning_rate=3e-4, layer_decay=0.8), BASE, cased(False), 2_500) == []
    mini = ModelConfig(preset="mini").build(30_522)
    assert advice(make_task(learning_rate=3e-4), mini, tokenizer, 2_500) == []
    assert advice(make_task(learning_rate=5e-5, epochs=20), BASE, tokenizer, 2_500) == []
    assert advice(make_task(learning_rate=5e-5, epochs=50, early_choice=True), BASE, tokenizer, 500) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"learning_rate": 3e-4}, "learning_rate 0.0003 for an encoder of hidden_size 768 without layer_decay"),
        ({"warmup_ratio": 0.0}, "warmup_ratio 0: usual is 0.1"),
        ({"epochs": 11}, "11 epochs over 900 training examples"),
    ],
)
def test_mistakes_of_the_params(
    fields: dict[str, Any], said: str, tokenizer: Tokenizer, make_task: Callable[..., RunConfig]
) -> None:
    (line,) = advice(make_task(**{"learning_rate": 5e-5} | fields), BASE, tokenizer, 900)
    assert said in line and "\n" not in line


def test_tokenizer_of_the_other_case(tokenizer: Tokenizer, make_task: Callable[..., RunConfig]) -> None:
    task = make_task(learning_rate=5e-5)
    (line,) = advice(task, BASE, cased(True), 2_500)
    assert "33% of the words in its vocabulary have upper-case letters" in line and "cased model" in line
    uncased = {entry: index for index, entry in enumerate([*SPECIAL_TOKENS, "city", "##s"])}
    (line,) = advice(task, replace(BASE), make_tokenizer(uncased, lowercase=False), 2_500)
    assert "the tokenizer keeps upper case" in line
