"""The end of the flow run, as those see it who watch it without a page."""

import logging
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from prefect.states import Completed, State, StateType

from flows import pipeline, pretrain
from tasks import links, params
from tasks.paths import INPUTS


def test_the_reason_of_a_failure_is_the_states_message_and_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "get_run_logger", lambda: logging.getLogger("tests.flow"))
    reason = "stage corpus: error: params.yaml: corpus.seed: found 'x', expected an integer"
    state = pipeline._failed(reason)
    assert state.is_failed() and state.message == reason
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [("ERROR", reason)]


def test_files_that_came_to_a_directory_are_linked_anew(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pipeline, "get_run_logger", lambda: logging.getLogger("tests.flow"))
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("corpus: {sources: [texts]}\n")
    Path("texts").mkdir()
    Path("texts/one.txt").write_text("one")
    (source,) = (each for each in links.named(params.read()) if each.uri)
    links.link(source, source.place)
    monkeypatch.chdir("/")
    pipeline._unlink_other_files(tmp_path)
    assert (tmp_path / INPUTS).is_dir() and not caplog.records
    (tmp_path / "texts" / "two.txt").write_text("two")
    with caplog.at_level(logging.INFO):
        pipeline._unlink_other_files(tmp_path)
    assert not (tmp_path / INPUTS).exists() and (tmp_path / "texts" / "one.txt").read_text() == "one"
    assert caplog.messages == ["texts leads to other files than are linked in data/inputs: they are linked anew"]


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
    tree = MagicMock()
    monkeypatch.setattr(pretrain, "get_run_logger", MagicMock())
    monkeypatch.setattr(pretrain, "holder", lambda: "me")
    monkeypatch.setattr(pretrain, "run_tree", lambda *_, **__: nullcontext(tree))
    monkeypatch.setattr(pretrain, "bring_up_to_date", lambda *_: done)
    monkeypatch.setattr(pretrain, "flow_run", SimpleNamespace(name="brisk-otter", id="id", run_count=1))
    assert pretrain._vary({"pretrain.seed": 2}, None, sorted(done), None).is_completed()
    assert tree.keep.call_args.args == ("brisk-otter", *kept)
