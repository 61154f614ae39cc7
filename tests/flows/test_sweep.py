"""Which runs a sweep makes of its parameters, and how a run is scored."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import httpx
import pytest
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Completed, Crashed, Running, State

from flows import sweep
from flows.sweep import Trial, at_least_one, behind, points, summary, unranked


def test_a_grid_is_every_combination_with_every_seed() -> None:
    found = points({"pretrain.learning_rate": [0.1, 0.2], "pretrain.batch_size": [8]}, [1, 2], None, 0)
    assert [tuple(point.values()) for point in found] == [(0.1, 8, 1), (0.1, 8, 2), (0.2, 8, 1), (0.2, 8, 2)]
    assert list(found[0]) == ["pretrain.learning_rate", "pretrain.batch_size", "pretrain.seed"]
    assert points({}, [3, 4], None, 0) == [{"pretrain.seed": 3}, {"pretrain.seed": 4}]


def test_draws_are_the_same_for_a_seed_and_within_their_range() -> None:
    space = {"a": {"min": 1e-5, "max": 1e-2, "log": True}, "b": {"min": 2, "max": 4}, "c": ["x", "y"]}
    first = points(space, [1, 2], 200, 7)
    assert first == points(space, [1, 2], 200, 7) != points(space, [1, 2], 200, 8)
    assert len(first) == 400 and first[0].keys() == {"a", "b", "c", "pretrain.seed"}
    assert {point["b"] for point in first} == {2, 3, 4} and {point["c"] for point in first} == {"x", "y"}
    assert all(1e-5 <= point["a"] <= 1e-2 for point in first)
    below = sum(point["a"] < 10**-3.5 for point in first) / len(first)
    assert 0.3 < below < 0.7, "even in the logarithm"


@pytest.mark.parametrize(
    ("params", "draws", "said"),
    [
        ({}, None, "parameter params: found nothing"),
        ({"a": 1}, None, "parameter params: a: found 1, expected a list of values; correct it"),
        ({"a": {"min": 1, "max": 2}}, None, "expected a list of values; correct it"),
        ({"a": {"min": 0, "max": 2, "log": True}}, 3, 'above 0 with "log": true; correct it'),
        ({"a": {"min": 0, "max": -1, "log": True}}, 3, 'a below b, above 0 with "log": true; correct it'),
        ({"a": {"min": 3, "max": 1}}, 3, "parameter params: a: found {'min': 3, 'max': 1}, expected a list of values"),
        ({"a": {"min": 1, "max": -1, "log": True}}, 3, "a below b"),
        ({"a": [1]}, 0, "parameter draws: found 0, expected 1 or more, or null for every combination"),
        ({"a": [1]}, -3, "parameter draws: found -3, expected 1 or more"),
        ({"a": {"min": 1}}, 3, "parameter params: a: found {'min': 1}, expected a list of values or"),
        ({"a": list(range(40)), "b": list(range(40))}, None, "found 1,600 combinations, expected at most 1,000"),
        ({name: list(range(900)) for name in "abcdef"}, None, "found 531,441,000,000,000,000 combinations"),
        ({"a": [1, 2]}, 10**15, "found 1,000,000,000,000,000 combinations"),
    ],
)
def test_what_cannot_be_combined_is_one_line(params: dict[str, Any], draws: int | None, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        points(params, None, draws, 0)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_seeds_are_given_once() -> None:
    with pytest.raises(
        ValueError, match=r"parameter seeds: found \[1, 2\] beside params: pretrain.seed, expected one of"
    ):
        points({"pretrain.seed": [5, 6]}, [1, 2], None, 0)
    assert points({"pretrain.seed": [5, 6]}, None, None, 0) == [{"pretrain.seed": 5}, {"pretrain.seed": 6}]


def test_a_run_is_scored_by_the_summary_of_its_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "summary.json").write_text(
        '{"pretrain": {"mlm_loss": 2.5}, "finetune": {"a": {"metric": "f1"}}}'
    )
    for command in ("init --quiet", "add .", "-c user.name=a -c user.email=a@b commit -qm one", "branch runs/one"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    monkeypatch.setattr(sweep, "ROOT", tmp_path)
    assert summary("runs/one") == {"pretrain.mlm_loss": 2.5}
    assert summary("runs/two") == {}


def test_a_run_is_behind_where_it_is_worse_than_the_median_of_enough_others_at_its_step() -> None:
    trials = [Trial({}, curve={100: loss, 200: loss - 1}) for loss in (3.0, 4.0, 8.0)]
    late = Trial({}, curve={100: 4.5})
    assert behind(late, [*trials, late], 3) == "stopped at step 100: held-out loss 4.5, median of 3 others 4"
    assert behind(late, [*trials, late], 4) is None, "too few others"
    assert behind(Trial({}, curve={100: 4.0}), trials, 3) is None, "as good as the median"
    assert behind(Trial({}, curve={100: 4.5, 150: 9.0}), trials, 1) is None, "nobody else was looked at there"
    assert behind(Trial({}), trials, 1) is None
    (reason,) = filter(None, [behind(trial, trials, 2) for trial in trials])
    assert reason == "stopped at step 200: held-out loss 7, median of 2 others 2.5"


def test_a_run_that_the_server_did_not_answer_for_is_asked_for_again_and_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = MagicMock()
    request = httpx.Request("POST", "http://server")
    answers = [httpx.ConnectError("gone"), _status(503, request), SimpleNamespace(id=uuid4(), name="brisk otter")]
    server.create_flow_run_from_deployment.side_effect = [*answers, _status(404, request)]
    trial, source = Trial({"pretrain.seed": 1}), uuid4()
    assert [sweep._started(server, source, trial, "a sweep", "abc") for _ in answers] == [False, False, True]
    assert trial.name == "brisk otter"
    assert len({call.kwargs["idempotency_key"] for call in server.create_flow_run_from_deployment.mock_calls}) == 1
    assert server.create_flow_run_from_deployment.call_args.kwargs["parameters"]["commit"] == "abc"
    with pytest.raises(httpx.HTTPStatusError):
        sweep._started(server, source, trial, "a sweep", "abc")


def _status(code: int, request: httpx.Request) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError(str(code), request=request, response=httpx.Response(code))


def test_numbers_of_runs_are_one_at_least() -> None:
    assert (at_least_one("at_once", None, "for all"), at_least_one("at_once", 3, "for all")) == (None, 3)
    for number in (0, -1):
        with pytest.raises(ValueError, match=f"parameter at_once: found {number}, expected 1 or more, or null for all"):
            at_least_one("at_once", number, "for all")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """A server on which every run completes at once, but the second, which goes on until it is cancelled."""
    server, ended = MagicMock(), set[Any]()
    runs = [SimpleNamespace(id=uuid4(), name=f"run {number}") for number in range(6)]
    server.create_flow_run_from_deployment.side_effect = runs
    server.set_flow_run_state.side_effect = lambda run, state: ended.add(run)

    def read(run: Any) -> SimpleNamespace:
        goes_on = run == runs[1].id and run not in ended
        state: State[None] = Running() if goes_on else Cancelled() if run in ended else Completed(message="ends as a")
        return SimpleNamespace(state=state)

    server.read_flow_run.side_effect = read
    monkeypatch.setattr(sweep, "POLL", 0.0)
    monkeypatch.setattr(sweep, "get_run_logger", MagicMock())
    return server


def test_a_sweep_ends_when_a_run_has_completed_without_its_metric(
    server: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "summary", lambda branch: {"pretrain.mlm_loss": 2.5, "pretrain.steps": 10.0})
    trials = [Trial({"pretrain.seed": seed}) for seed in range(6)]
    sweep._run_all(server, trials, "a sweep", "abc", "pretrain.mlmloss", 2, None)
    assert [trial.outcome for trial in trials[2:]] == ["not run"] * 4
    assert trials[0].outcome == "Completed"
    assert trials[1].outcome == trials[1].stopped == "stopped: a run has completed without pretrain.mlmloss"
    assert unranked("pretrain.mlmloss", trials) == (
        "parameter metric: found 'pretrain.mlmloss', which no run that has completed has; did you mean "
        "'pretrain.mlm_loss'? Expected one of: pretrain.mlm_loss, pretrain.steps"
    )


def test_a_sweep_whose_metric_is_there_runs_to_its_end(server: MagicMock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "summary", lambda branch: {"pretrain.mlm_loss": 2.5})
    trials = [Trial({"pretrain.seed": seed}) for seed in range(6)]
    monkeypatch.setattr(server, "read_flow_run", lambda run: SimpleNamespace(state=Completed(message="ends as a")))
    sweep._run_all(server, trials, "a sweep", "abc", "pretrain.mlm_loss", 2, None)
    assert {trial.outcome for trial in trials} == {"Completed"} and not server.set_flow_run_state.called
    assert all(trial.metrics == {"pretrain.mlm_loss": 2.5} for trial in trials)


def test_a_run_that_crashed_is_over_when_nothing_has_begun_it_again(server: MagicMock) -> None:
    trial = Trial({}, run=uuid4())
    crashed = Crashed()
    server.read_flow_run = lambda run: SimpleNamespace(state=crashed)
    assert not sweep._ended(server, trial, "pretrain.mlm_loss")
    crashed = Crashed(timestamp=datetime.now(UTC) - timedelta(seconds=sweep.COMES_BACK + 1))
    assert sweep._ended(server, trial, "pretrain.mlm_loss") and trial.outcome == "Crashed"


def test_a_run_that_somebody_has_deleted_is_over(server: MagicMock) -> None:
    server.read_flow_run.side_effect = ObjectNotFound(http_exc=Exception("404"))
    trial = Trial({}, run=uuid4())
    assert sweep._ended(server, trial, "pretrain.mlm_loss") and trial.outcome == "deleted"


def test_runs_that_never_ended_are_no_matter_of_the_metric() -> None:
    assert unranked("a.b", [Trial({}, outcome="Failed")]) == (
        "no run of the sweep has completed with a metrics/summary.json"
    )
