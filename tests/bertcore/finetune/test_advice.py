"""Each usual mistake is one line, and what is usual is none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tokenizers import Tokenizer

from bertcore.finetune.advice import advice
from bertcore.finetune.config import RunConfig
from bertcore.model.config import ModelConfig
from bertcore.tokens.wordpiece import SPECIAL_TOKENS, make_tokenizer

BASE = ModelConfig(preset="base").build(30_522)


def cased(lowercase: bool) -> Tokenizer:
    entries = [*SPECIAL_TOKENS, "[unused1]", "Berlin", "##lin", "city"]
    return make_tokenizer({entry: index for index, entry in enumerate(entries)}, lowercase=lowercase)


def test_usual_runs_need_no_advice(tokenizer: Tokenizer, make_task: Callable[..., RunConfig]) -> None:
    assert advice(make_task(learning_rate=5e-5), BASE, tokenizer, 2_500, 2_500) == []
    assert advice(make_task(learning_rate=3e-4, layer_decay=0.8), BASE, cased(False), 2_500, 2_500) == []
    mini = ModelConfig(preset="mini").build(30_522)
    assert advice(make_task(learning_rate=3e-4), mini, tokenizer, 2_500, 2_500) == []
    assert (
        advice(
            replace(make_task(learning_rate=5e-5, sequence_length=128, doc_stride=96), format="squad"),
            BASE,
            tokenizer,
            2_500,
            2_500,
        )
        == []
    )
    assert advice(make_task(learning_rate=5e-5, epochs=20), BASE, tokenizer, 2_500, 2_500) == []
    assert advice(make_task(learning_rate=5e-5, epochs=50, early_choice=True), BASE, tokenizer, 500, 500) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"learning_rate": 1.1e-4},
            "learning_rate 0.00011 for an encoder of hidden_size 768 without layer_decay: usual",
        ),
        ({"warmup_ratio": 0.0}, "warmup_ratio 0: usual is 0.1"),
        ({"epochs": 21}, "21 epochs over 900 training examples"),
        ({"epochs": 1, "batch_size": 16}, "57 optimizer steps in all: in fewer than 100 a new head"),
    ],
)
def test_mistakes_of_the_params(
    fields: dict[str, Any], said: str, tokenizer: Tokenizer, make_task: Callable[..., RunConfig]
) -> None:
    (line,) = advice(make_task(**{"learning_rate": 5e-5, "batch_size": 16} | fields), BASE, tokenizer, 900, 900)
    assert said in line and "\n" not in line


@pytest.mark.parametrize(
    ("preset", "usual", "too_high"),
    [("tiny", 5e-4, 1e-3), ("mini", 3e-4, 9e-4), ("medium", 1e-4, 3e-4), ("base", 1e-4, 2e-4), ("large", 1e-4, 2e-4)],
)
def test_encoder_of_every_width_has_a_highest_rate(
    preset: str, usual: float, too_high: float, tokenizer: Tokenizer, make_task: Callable[..., RunConfig]
) -> None:
    encoder = ModelConfig(preset=preset).build(30_522)
    assert advice(make_task(learning_rate=usual), encoder, tokenizer, 2_500, 2_500) == []
    (line,) = advice(make_task(learning_rate=too_high), encoder, tokenizer, 2_500, 2_500)
    assert f"learning_rate {too_high:g} for an encoder of hidden_size {encoder.hidden_size}" in line
    assert advice(make_task(learning_rate=too_high, layer_decay=0.9), encoder, tokenizer, 2_500, 2_500) == []


def test_windows_of_squad_that_nobody_has_chosen(tokenizer: Tokenizer) -> None:
    (line,) = advice(RunConfig(format="squad", data="d", learning_rate=5e-5), BASE, tokenizer, 2_500, 2_500)
    assert "sequence_length 128 and doc_stride 64 for the format squad: usual are 384 and 128" in line
    chosen = RunConfig(format="squad", data="d", learning_rate=5e-5, sequence_length=384, doc_stride=128)
    assert advice(chosen, BASE, tokenizer, 2_500, 2_500) == []


def test_tokenizer_of_the_other_case(tokenizer: Tokenizer, make_task: Callable[..., RunConfig]) -> None:
    task = make_task(learning_rate=5e-5)
    (line,) = advice(task, BASE, cased(True), 2_500, 2_500)
    assert "50% of the words in its vocabulary have upper-case letters" in line and "cased model" in line
    uncased = {entry: index for index, entry in enumerate([*SPECIAL_TOKENS, "city", "##s"])}
    (line,) = advice(task, replace(BASE), make_tokenizer(uncased, lowercase=False), 2_500, 2_500)
    assert "the tokenizer keeps upper case" in line


def test_layers_that_normalise_what_they_read_bear_more(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig]
) -> None:
    modern, usual = (ModelConfig(preset="mini", architecture=name).build(30_522) for name in ("modernbert", "bert"))
    task = make_task(learning_rate=1e-3)
    assert advice(task, modern, tokenizer, 2_500, 2_500) == [] != advice(task, usual, tokenizer, 2_500, 2_500)
