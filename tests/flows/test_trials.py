"""How the runs of a sweep are begun, followed, scored and stopped."""

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import httpx
import pytest
from prefect.client.schemas.responses import SetStateStatus
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Completed, Crashed, Running, State

from flows import trials
from flows.trials import Trial, Trials, behind, summary


def test_a_run_is_scored_by_the_summary_of_its_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "summary.json").write_text(
        '{"pretrain": {"mlm_loss": 2.5}, "finetune": {"a": {"metric": "f1"}}}'
    )
    for command in ("init --quiet", "add .", "-c user.name=a -c user.email=a@b commit -qm one", "branch runs/one"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    monkeypatch.setattr(trials, "ROOT", tmp_path)
    assert summary("runs/one") == {"pretrain.mlm_loss": 2.5}
    assert summary("runs/two") == {}


def test_a_run_is_behind_where_it_is_worse_than_the_median_of_enough_others_at_its_step() -> None:
    runs = [Trial({}, curve={100: loss, 200: loss - 1}) for loss in (3.0, 4.0, 8.0)]
    late = Trial({}, curve={100: 4.5})
    assert behind(late, [*runs, late], 3) == "stopped at step 100: held-out loss 4.5, median of 3 others 4"
    assert behind(late, [*runs, late], 4) is None, "too few others"
    assert behind(Trial({}, curve={100: 4.0}), runs, 3) is None, "as good as the median"
    assert behind(Trial({}, curve={100: 4.5, 150: 9.0}), runs, 1) is None, "nobody else was looked at there"
    assert behind(Trial({}), runs, 1) is None
    (reason,) = filter(None, [behind(run, runs, 2) for run in runs])
    assert reason == "stopped at step 200: held-out loss 7, median of 2 others 2.5"


def of(server: MagicMock, *runs: Trial, metric: str = "pretrain.mlm_loss") -> Trials:
    return Trials(server, "1", "a sweep", metric, list(runs))


def test_a_run_that_the_server_did_not_answer_for_is_asked_for_again_and_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = MagicMock()
    request = httpx.Request("POST", "http://server")
    answers = [httpx.ConnectError("gone"), _status(503, request), SimpleNamespace(id=uuid4(), name="brisk otter")]
    server.create_flow_run_from_deployment.side_effect = [*answers, _status(404, request)]
    trial, source = Trial({"pretrain.seed": 1}), uuid4()
    assert [of(server).start(trial, source, "abc") for _ in answers] == [False, False, True]
    assert trial.name == "brisk otter"
    assert len({call.kwargs["idempotency_key"] for call in server.create_flow_run_from_deployment.mock_calls}) == 1
    assert server.create_flow_run_from_deployment.call_args.kwargs["parameters"]["commit"] == "abc"
    with pytest.raises(httpx.HTTPStatusError):
        of(server).start(trial, source, "abc")


def _status(code: int, request: httpx.Request) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError(str(code), request=request, response=httpx.Response(code))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """A server on which every run completes at once, but the second, which goes on until it is cancelled."""
    server, ended = MagicMock(), set[Any]()
    runs = [SimpleNamespace(id=uuid4(), name=f"run {number}") for number in range(6)]
    server.create_flow_run_from_deployment.side_effect = runs

    def cancel(run: Any, state: State[None]) -> SimpleNamespace:
        ended.add(run)
        return SimpleNamespace(status=SetStateStatus.ACCEPT)

    server.set_flow_run_state.side_effect = cancel

    def read(run: Any) -> SimpleNamespace:
        goes_on = run == runs[1].id and run not in ended
        state: State[None] = Running() if goes_on else Cancelled() if run in ended else Completed(message="ends as a")
        return SimpleNamespace(state=state)

    server.read_flow_run.side_effect = read
    monkeypatch.setattr(trials, "POLL", 0.0)
    monkeypatch.setattr(trials, "get_run_logger", MagicMock())
    return server


ACCEPTED, ABORTED = (SimpleNamespace(status=status) for status in (SetStateStatus.ACCEPT, SetStateStatus.ABORT))


def test_a_sweep_that_is_ended_says_of_its_runs_what_became_of_them() -> None:
    runs = [Trial({}, run=uuid4()), Trial({}, run=uuid4()), Trial({}, run=uuid4(), outcome="Completed"), Trial({})]
    server = MagicMock()
    server.set_flow_run_state.side_effect = [ACCEPTED, httpx.ConnectError("gone")]
    of(server, *runs).cancel()
    assert [run.outcome for run in runs] == ["cancelled", "not stopped", "Completed", "not run"]


@pytest.mark.parametrize(("end", "outcome", "asked"), [(Completed, "Completed", 1), (Crashed, "cancelled", 2)])
def test_a_run_that_has_ended_before_the_sweep_did(
    end: Callable[[], State[None]], outcome: str, asked: int, server: MagicMock
) -> None:
    """One that has crashed would be begun again, so that it is cancelled whatever it says."""
    trial = Trial({}, run=uuid4())
    state = end()  # now: one that crashed long ago is not begun again
    server.set_flow_run_state.side_effect = lambda run, state, force=False: ACCEPTED if force else ABORTED
    server.read_flow_run = lambda run: SimpleNamespace(state=state)
    of(server, trial).cancel()
    assert trial.outcome == outcome and server.set_flow_run_state.call_count == asked


def test_a_run_whose_creation_was_not_answered_is_cancelled_too() -> None:
    server, trial = MagicMock(), Trial({"pretrain.seed": 2})
    ours, theirs = (
        SimpleNamespace(id=uuid4(), name="r", parameters={"params": {"pretrain.seed": 2}, "sweep": label})
        for label in ("1 a sweep", "2 a sweep")
    )
    server.read_flow_runs.return_value = [theirs, ours]
    server.set_flow_run_state.return_value = ACCEPTED
    of(server, trial).cancel()
    assert trial.run == ours.id and trial.outcome == "cancelled"
    assert [call.args[0] for call in server.set_flow_run_state.mock_calls] == [ours.id]


def test_a_sweep_finds_all_of_its_runs_where_the_server_shows_them_in_parts() -> None:
    runs = [SimpleNamespace(parameters={"sweep": "1 a sweep", "number": number}) for number in range(450)]

    def read(*, offset: int, limit: int, **_: object) -> list[SimpleNamespace]:
        return runs[offset : offset + limit]

    server = MagicMock()
    server.read_flow_runs.side_effect = read
    assert of(server)._begun() == runs and server.read_flow_runs.call_count == 3


def test_a_sweep_ends_when_a_run_has_completed_without_its_metric(
    server: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "summary", lambda branch: {"pretrain.mlm_loss": 2.5, "pretrain.steps": 10.0})
    runs = [Trial({"pretrain.seed": seed}) for seed in range(6)]
    sweep = of(server, *runs, metric="pretrain.mlmloss")
    sweep.run(uuid4(), "abc", 2, None)
    assert [run.outcome for run in runs[2:]] == ["not run"] * 4
    assert runs[0].outcome == "Completed"
    assert runs[1].outcome == runs[1].stopped == "stopped: a run has completed without pretrain.mlmloss"
    assert sweep.unranked() == (
        "parameter metric: found 'pretrain.mlmloss', which no run that has completed has; did you mean "
        "'pretrain.mlm_loss'? Expected one of: pretrain.mlm_loss, pretrain.steps"
    )


def test_a_run_that_has_ended_meanwhile_is_not_said_to_be_stopped(server: MagicMock) -> None:
    trial = Trial({}, run=uuid4())
    server.set_flow_run_state.side_effect = lambda run, state: SimpleNamespace(status=SetStateStatus.ABORT)
    of(server, trial).stop(trial, "stopped: too slow")
    assert not trial.stopped


def test_a_sweep_whose_metric_is_there_runs_to_its_end(server: MagicMock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "summary", lambda branch: {"pretrain.mlm_loss": 2.5})
    runs = [Trial({"pretrain.seed": seed}) for seed in range(6)]
    monkeypatch.setattr(server, "read_flow_run", lambda run: SimpleNamespace(state=Completed(message="ends as a")))
    of(server, *runs).run(uuid4(), "abc", 2, None)
    assert {run.outcome for run in runs} == {"Completed"} and not server.set_flow_run_state.called
    assert all(run.metrics == {"pretrain.mlm_loss": 2.5} for run in runs)


def test_a_run_that_crashed_is_over_when_nothing_has_begun_it_again(server: MagicMock) -> None:
    trial = Trial({}, run=uuid4())
    crashed = Crashed()
    server.read_flow_run = lambda run: SimpleNamespace(state=crashed)
    assert not of(server).ended(trial)
    crashed = Crashed(timestamp=datetime.now(UTC) - timedelta(seconds=trials.COMES_BACK + 1))
    assert of(server).ended(trial) and trial.outcome == "Crashed"


def test_a_run_that_somebody_has_deleted_is_over(server: MagicMock) -> None:
    server.read_flow_run.side_effect = ObjectNotFound(http_exc=Exception("404"))
    trial = Trial({}, run=uuid4())
    assert of(server).ended(trial) and trial.outcome == "deleted"


def test_runs_that_never_ended_are_no_matter_of_the_metric() -> None:
    assert of(MagicMock(), Trial({}, outcome="Failed"), metric="a.b").unranked() == (
        "no run of the sweep has completed with a metrics/summary.json"
    )
