"""What is kept back from train: rows that share a text on one side, and enough of them to choose on."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from bertcore.examples.schema import CLASSIFICATION
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import CHOICE
from bertcore.finetune.training_rows import _keep_back


def rows(count: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": str(row), "text_a": f"text {row}"} for row in range(count)], CLASSIFICATION)


def test_a_text_that_many_rows_share_is_not_kept_back_where_others_are_enough(
    make_task: Callable[..., RunConfig],
) -> None:
    table = rows(200)
    for shared in range(12):  # so that the text comes early and late in the order
        texts = [f"text {shared}"] * 80 + [f"own {row}" for row in range(table.num_rows - 80)]
        column = table.column_names.index("text_a")
        kept = _keep_back(table.set_column(column, "text_a", pa.array(texts)), make_task(choice_fraction=0.1))
        assert kept[CHOICE].num_rows == table.num_rows // 10
    same = pa.array([f"text {row % 2}" for row in range(table.num_rows)])
    halves = _keep_back(table.set_column(column, "text_a", same), make_task(choice_fraction=0.1))
    assert halves["train"].num_rows == halves[CHOICE].num_rows, "there is nothing smaller"
    large = pa.array([f"text {min(row // 49, 3)}" for row in range(147)] + ["few"] * 3 + ["text 3"] * 50)
    few = _keep_back(table.set_column(column, "text_a", large), make_task(choice_fraction=0.1))
    assert few[CHOICE].num_rows == 3 + 49, "three rows say nothing"


def test_a_choice_by_chance_is_said(make_task: Callable[..., RunConfig], caplog: pytest.LogCaptureFixture) -> None:
    _keep_back(rows(400), make_task(choice_fraction=0.1))
    assert not caplog.records
    _keep_back(rows(40), make_task(choice_fraction=0.1))
    assert "chosen on 4 training examples that are kept back, where chance decides" in caplog.text
    assert "without early_choice, and a number as null_threshold" in caplog.text, "a threshold is chosen on them, too"
