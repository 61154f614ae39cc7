"""The end of the flow run, as those see it who watch it without a page."""

import logging
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from prefect.states import Completed, State, StateType

from flows import pipeline, pretrain
from flows.pipeline import Done, concluded
from flows.remote import RemoteError


def test_the_reason_of_a_failure_is_the_states_message_and_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "get_run_logger", lambda: logging.getLogger("tests.flow"))
    reason = "stage corpus: error: params.yaml: corpus.seed: found 'x', expected an integer"
    state = pipeline._failed(reason)
    assert state.is_failed() and state.message == reason
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [("ERROR", reason)]


def test_a_run_that_never_comes_to_its_end_is_not_begun_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "get_run_logger", lambda: logging.getLogger("tests.flow"))
    done: list[str] = []

    def work() -> State[None]:
        done.append("worked")
        return Completed()

    for count, kind in ((pipeline.STARTS, StateType.COMPLETED), (pipeline.STARTS + 1, StateType.FAILED)):
        monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__RUN_COUNT", str(count))
        assert pipeline.concluded(work).type == kind
    assert done == ["worked"]


@pytest.mark.parametrize(
    ("done", "kept"),
    [
        ({"corpus", "pretrain", "report"}, ()),
        ({"corpus", "pretrain"}, (("dvc.lock", "metrics/curves"),)),
        ({"corpus"}, (("dvc.lock",),)),
    ],
)
def test_a_run_of_some_stages_keeps_no_results_of_another_one(
    done: set[str], kept: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, state = varied(Done(done, ""), monkeypatch)
    assert tree.keep.call_args.args == ("brisk-otter", *kept)
    assert state.is_completed() and state.message == "results: git branch runs/brisk-otter"


def varied(done: Done, monkeypatch: pytest.MonkeyPatch) -> tuple[MagicMock, State[None]]:
    """The tree of a run with parameters of its own that has `done` this, and how the run ends."""
    tree = MagicMock()
    tree.keep.return_value = "runs/brisk-otter"
    monkeypatch.setattr(pretrain, "get_run_logger", MagicMock())
    monkeypatch.setattr(pretrain, "holder", lambda: "me")
    monkeypatch.setattr(pretrain, "run_tree", lambda *_, **__: nullcontext(tree))
    monkeypatch.setattr(pretrain, "bring_up_to_date", lambda *_: done)
    monkeypatch.setattr(pretrain, "flow_run", SimpleNamespace(name="brisk-otter", id="id", run_count=1))
    return tree, pretrain._vary({"pretrain.seed": 2}, None, sorted(done.stages), None)


def test_a_remote_that_is_away_at_the_end_takes_no_results_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise RemoteError("s3://bucket cannot be pushed to")

    monkeypatch.setattr(pipeline, "get_run_logger", lambda: logging.getLogger("tests.flow"))
    monkeypatch.setattr(pipeline, "_consult", away)
    done = Done({"report"}, pipeline._push("s3://bucket", Path()))
    assert "not pushed: s3://bucket cannot be pushed to" in caplog.text
    tree, state = varied(done, monkeypatch)
    assert tree.keep.called and state.is_completed()
    assert state.message == "not pushed: s3://bucket cannot be pushed to; results: git branch runs/brisk-otter"
    assert concluded(lambda: pretrain._here(None)).is_failed(), "a run in the user's tree says so, and all lies there"
