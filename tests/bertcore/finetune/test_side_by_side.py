"""Runs in several processes: the same bits as in one, also where a process is lost."""

import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from bertcore.examples.schema import ExampleSet
from bertcore.finetune import side_by_side
from bertcore.finetune.config import TaskConfig
from bertcore.finetune.grid import Grid, Outcome
from bertcore.finetune.run import Finetuning, InitialEncoder
from bertcore.finetune.side_by_side import Runs
from bertcore.model.bert import BertConfig
from tests.bertcore.finetune.test_grid import ROWS, bits

TASK = TaskConfig(format="f", data="d", sequence_length=16, learning_rate=[1e-3, 1e-6], seed=[1, 2], dropout=0.1)


@pytest.fixture
def prepare(tokenizer: Tokenizer, make_examples: Callable[..., ExampleSet]) -> Callable[[], Finetuning]:
    examples = make_examples("classification", ["no", "yes"], ["accuracy"], train=ROWS, dev=ROWS)
    return partial(Finetuning, TASK.settings()[0][0], examples, tokenizer, several_settings=True)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def alone(prepare: Callable[[], Finetuning], systems: dict[str, InitialEncoder], directory: Path) -> list[Outcome]:
    finetuning = prepare()
    return [
        Grid(finetuning, encoder, name, TASK.settings(), directory, "key").run() for name, encoder in systems.items()
    ]


def same(outcomes: list[Outcome], others: list[Outcome]) -> bool:
    return all(
        one.runs == other.runs and one.result.curves == other.result.curves and torch.equal(bits(one), bits(other))
        for one, other in zip(outcomes, others, strict=True)
    )


def loud(prepare: Callable[[], Finetuning]) -> Finetuning:
    logging.getLogger("bertcore").warning("some texts are cut")
    return prepare()


def test_two_processes_make_what_one_makes_and_say_nothing_again(
    prepare: Callable[[], Finetuning],
    config: BertConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    systems: dict[str, InitialEncoder] = {"toy.one": config, "toy.two": config}
    expected = alone(prepare, systems, tmp_path / "alone")
    runs = Runs(partial(loud, prepare), systems, TASK.settings(), tmp_path / "two", "key")
    grids = runs.grids(prepare())
    assert [len(grid.missing()) for grid in grids.values()] == [4, 4]
    side_by_side.make(runs, grids, processes=2)
    assert "some texts are cut" not in capfd.readouterr().err
    kept = [grid._checkpoints(task).latest() for grid in grids.values() for task in grid._flat]
    assert ["model" in record for record in kept if record].count(True) == 2, "weights that nobody can ask for any more"
    monkeypatch.setattr(Finetuning, "train", None)  # all has been made
    assert same([grid.run() for grid in grids.values()], expected)


def only_in(process: int, prepare: Callable[[], Finetuning]) -> Finetuning:
    if os.getpid() != process:
        os.kill(os.getpid(), signal.SIGKILL)
    return prepare()


def test_what_a_killed_process_leaves_is_made_by_this_one(
    prepare: Callable[[], Finetuning], config: BertConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = alone(prepare, {"toy": config}, tmp_path / "alone")
    runs = Runs(partial(only_in, os.getpid(), prepare), {"toy": config}, TASK.settings(), tmp_path / "two", "key")
    grids = runs.grids(prepare())
    with caplog.at_level(logging.WARNING):
        side_by_side.make(runs, grids, processes=2)
    assert "one of 2 processes ended (process " in caplog.text and "SIGKILL" in caplog.text
    assert len(grids["toy"].missing()) == 4
    assert same([grids["toy"].run()], expected)


def but_for_one(place: Path, prepare: Callable[[], Finetuning]) -> Finetuning:
    """The first process that asks is killed."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(place, os.O_CREAT | os.O_EXCL))
        os.kill(os.getpid(), signal.SIGKILL)
    return prepare()


def test_a_process_that_is_killed_ends_no_other(
    prepare: Callable[[], Finetuning], config: BertConfig, tmp_path: Path
) -> None:
    killed = partial(but_for_one, tmp_path / "killed", prepare)
    runs = Runs(killed, {"toy": config}, TASK.settings(), tmp_path / "two", "key")
    grids = runs.grids(prepare())
    side_by_side.make(runs, grids, processes=2)
    assert len(grids["toy"].missing()) == 2


def test_one_run_or_one_process_is_left_to_this_one(
    prepare: Callable[[], Finetuning], config: BertConfig, tmp_path: Path
) -> None:
    runs = Runs(partial(only_in, os.getpid(), prepare), {"toy": config}, TASK.settings(), tmp_path, "key")
    grids = runs.grids(prepare())
    side_by_side.make(runs, grids, processes=1)
    for task in TASK.settings()[0] + TASK.settings()[1][:1]:
        grids["toy"].make(task)
    side_by_side.make(runs, grids, processes=2)
    assert grids["toy"].missing() == TASK.settings()[1][1:]
