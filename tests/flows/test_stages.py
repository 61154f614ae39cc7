"""What the flow makes of a stage's output: the error that a person reads, and whether to try again."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from bertcore.progress import Progress
from flows.environment import ROOT
from flows.graph import Stage
from flows.stages import PROGRESS, FinalStageError, StageError, _Output, _repro, check_policy, task_for

HEAD = ["Running stage 'mask':\n", "> python -m tasks.mask\n"]


def failure(lines: list[str], exit_status: int = 1) -> StageError:
    output = _Output("mask", logging.getLogger("test"))
    end = f"ERROR: failed to reproduce 'mask': failed to run: python -m tasks.mask, exited with {exit_status}\n"
    output.follow([*HEAD, *lines, end])
    return output.failure(1)


def test_the_error_is_the_stages_own_line() -> None:
    error = failure(["reading\n", "error: params.yaml: mask: found 3, expected 2\n", "bye\n"])
    assert str(error) == "stage mask: error: params.yaml: mask: found 3, expected 2"
    assert not isinstance(error, FinalStageError)


def test_of_a_traceback_the_last_line_counts() -> None:
    error = failure(["Traceback (most recent call last):\n", '  File "mask.py", line 3\n', "ValueError: boom\n"])
    assert str(error) == "stage mask: ValueError: boom"


def test_without_a_word_the_exit_status_is_told() -> None:
    assert str(failure([], exit_status=137)) == "stage mask: exit status 137"


@pytest.mark.parametrize("status", [2, 75, 130])
def test_bad_input_and_a_stopped_stage_are_not_tried_again(status: int) -> None:
    assert isinstance(failure(["error: no\n"], exit_status=status), FinalStageError)


def test_a_dvc_that_holds_the_files_is_named() -> None:
    output = _Output("mask", logging.getLogger("test"))
    output.follow(
        [
            "ERROR: failed to reproduce 'mask': '/tree/data/shards' is busy, it is being blocked by:\n",
            "  (PID 4242): dvc repro\n",
            "\n",
            "If there are no processes with such PIDs, you can manually remove '/tree/rwlock' and try again.\n",
        ]
    )
    error = output.failure(255)
    assert "another dvc works on the same files: (PID 4242): dvc repro" in str(error)
    assert isinstance(error, FinalStageError), "the run is refused now, not after attempts that last an hour"


@pytest.mark.parametrize(
    "name", ["pretrain", "finetune@qa", "mask 128", "masked copies", "topic.pretrained learning_rate=0.001 seed=1"]
)
@pytest.mark.parametrize("total", [3, None])
def test_every_line_of_a_progress_is_known_as_one(
    name: str, total: int | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertcore.progress._SECONDS", 0.0)
    progress = Progress(name, total)
    for note in ("", "loss 1.25  9 tokens/s", ""):
        progress.advance(note)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    for done, line in enumerate(lines, 1):
        found = PROGRESS.match(line)
        assert found and found.groups() == (name, "?" if total is None else str(100 * done // 3)), line


@pytest.mark.parametrize("line", ["held-out loss 3.1 at step 20", "INFO mask: 12% of it", "kept 37% of the words"])
def test_other_lines_are_no_progress(line: str) -> None:
    assert PROGRESS.match(line) is None


def test_a_skipped_stage_is_seen() -> None:
    output = _Output("mask", logging.getLogger("test"))
    output.follow(["Stage 'mask' didn't change, skipping\n", "Data and pipelines are up to date.\n"])
    assert output.skipped


def test_zero_seconds_are_no_limit(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="not inside of a DVC repository") as error:
        _repro("mask", tmp_path, {**os.environ, "PYTHONPATH": str(ROOT)}, 0, logging.getLogger("test"))
    assert not isinstance(error.value, FinalStageError)


def test_meta_gives_the_retries() -> None:
    task = task_for(Stage(name="pretrain", meta={"retries": 2, "retry_delay_seconds": 10}))
    assert (task.name, task.retries, task.retry_delay_seconds) == ("pretrain", 2, [10, 20])
    assert task_for(Stage(name="mask")).retries == 0


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        *(("retries", value, "an integer") for value in (-1, "two", 1.5, True)),
        *(("timeout_seconds", value, "a number of seconds") for value in ("2h", -1.0)),
        ("retry_delay_seconds", None, "a number of seconds"),
    ],
)
def test_a_policy_that_says_nothing_is_refused(key: str, value: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=rf"dvc.yaml: pretrain: meta.{key}: found .*, expected {expected}, 0 or more"):
        check_policy([Stage(name="mask", meta={"timeout_seconds": 1.5}), Stage(name="pretrain", meta={key: value})])
