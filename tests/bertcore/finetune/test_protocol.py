"""Which runs are asked for, which is chosen, and what is said of the others."""

import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.finetune.config import RunConfig, TaskConfig
from bertcore.finetune.protocol import Run, best_setting, median_run, medians, spread

SCORES = st.lists(st.integers(0, 5).map(lambda n: n / 5), min_size=1, max_size=7)


def run(score: float, **fields: Any) -> Run:
    task = RunConfig(format="f", data="d", **fields)
    return Run(task=task, metrics={"dev": {"f1": score, "accuracy": 1 - score}}, best_epoch=None, settled={})


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
        ({"epochs": [2, 1.5]}, r"x\.epochs\[1\]: found 1.5 \(float\), expected int"),
        ({"seed": "one"}, r"x\.seed: found 'one' \(str\), expected int \| list\[int\]"),
    ],
)
def test_impossible_values_of_a_list_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        entry(**values)


@given(SCORES)
def test_median_run_is_a_run_whose_score_is_the_lower_median(scores: list[float]) -> None:
    runs = [run(score) for score in scores]
    place = median_run(runs, "f1")
    assert scores[place] == statistics.median_low(scores) and scores.index(scores[place]) == place


@given(st.lists(SCORES, min_size=1, max_size=5))
def test_setting_is_chosen_by_its_median_and_not_by_its_best_seed(scores: list[list[float]]) -> None:
    settings = [[run(score) for score in each] for each in scores]
    place = best_setting(settings, "f1")
    assert [statistics.median(each) for each in scores].index(max(map(statistics.median, scores))) == place


@given(SCORES)
def test_spread_holds_all_scores(scores: list[float]) -> None:
    found = spread([run(score) for score in scores])["dev"]["f1"]
    assert list(found.values()) == sorted(found.values())
    assert (found["min"], found["max"]) == (min(scores), max(scores))
    assert found["median"] == pytest.approx(statistics.median(scores))
    assert found["upper_quartile"] == pytest.approx(np.percentile(scores, 75))
    assert medians([run(score) for score in scores])["dev"]["f1"] == found["median"]


def test_row_says_what_was_chosen_on_dev() -> None:
    chosen = Run(task=run(0.0, epochs=4).task, metrics={}, best_epoch=2, settled={"null_threshold": -1.5})
    row = {"learning_rate": 3e-4, "epochs": 4, "seed": 1, "best_epoch": 2, "null_threshold": -1.5, "scores": {}}
    assert chosen.row() == row
