"""A store of MLflow that does not answer for a while: nothing ends because of it, and nothing is missing or doubled."""

import contextlib
import logging
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException, RestException
from mlflow.tracking import MlflowClient

from bertcore.errors import ArtifactError, UnavailableError
from tasks import stage
from tasks.tracking import outbox, runs
from tasks.tracking.curves import Unreported
from tests.import_closure import ROOT
from tests.samples import empty_store

PIPELINE = "stages: {corpus: {cmd: c}, mask: {cmd: m}, tokenizer: {cmd: t}}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(empty_store(), tmp_path)
    monkeypatch.setenv("BERTCORE_PIPELINE_RUN", "run-1")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    Path("dvc.yaml").write_text(PIPELINE)
    Path("params.yaml").write_text("{}")


class Outage:
    """Of every call that writes, while `on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on, self.answer_lost, self.tries = True, False, 0
        for name in ("log_batch", "set_terminated", "log_artifacts", "update_run"):
            monkeypatch.setattr(MlflowClient, name, self._of(getattr(MlflowClient, name)))

    def _of(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*arguments: Any, **named: Any) -> Any:
            self.tries += self.on
            if not self.on or self.answer_lost:
                call(*arguments, **named)
            if self.on:
                raise MlflowException("API request to http://ann:secret@host/api failed with exception X")

        return tried


def curve(run: runs.StageRun) -> list[tuple[int, float]]:
    points = run.client.get_metric_history(run.run_id, "train/loss")
    return [(point.step, point.value) for point in points]


@pytest.mark.parametrize("answer_lost", [False, True])
def test_points_of_an_outage_arrive_after_it_once_and_with_their_times(
    project: None, answer_lost: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outbox, "_PAUSE", 0)
    monkeypatch.setattr(outbox, "_REST", 0)
    run = runs.start("corpus", {})
    report = Unreported(run).report
    report(1, {"train/loss": 4.0})
    outage = Outage(monkeypatch)
    outage.answer_lost = answer_lost
    for step in (2, 3):
        report(step, {"train/loss": 5.0 - step})
    (said,) = [record.message for record in caplog.records if record.name == outbox.__name__]
    assert said.endswith("kept and sent when it does: API request to http://host/api failed with exception X")
    assert outage.tries == 2 and len(curve(run)) == 1 + 2 * answer_lost
    outage.on = False
    report(4, {"train/loss": 1.0})
    assert curve(run) == [(step, 5.0 - step) for step in (1, 2, 3, 4)]
    report(4, {"train/loss": 1.0})
    outage.on = True
    report(5, {"train/loss": 0.0})
    outage.on = False
    run.close()
    assert curve(run) == [(step, 5.0 - step) for step in (1, 2, 3, 4, 5)]
    times = [point.timestamp for point in run.client.get_metric_history(run.run_id, "train/loss")]
    assert times == sorted(times)


def test_a_slow_failure_is_tried_again_after_ten_times_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, tries, fails = [0.0], [], [True]
    monkeypatch.setattr(outbox.time, "monotonic", lambda: clock[0])

    def call() -> None:
        tries.append(clock[0])
        if fails[0]:
            clock[0] += 12
            raise MlflowException("no answer")

    box = outbox.Outbox()
    for now in (0.0, 100.0, 131.9, 132.0, 200.0):
        clock[0] = now
        box.send(call)
    assert tries == [0.0, 132.0]
    fails[0] = False
    box.close()
    assert len(tries) == 2 + 5, "each of the five, in the end without a pause"


def test_points_of_curves_take_half_a_hundredth_of_the_time(project: None, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, calls = [0.0], []
    monkeypatch.setattr(outbox.time, "monotonic", lambda: clock[0])
    log_batch = MlflowClient.log_batch

    def slow(client: MlflowClient, run_id: str, metrics: Sequence[Metric] = (), **others: Any) -> None:
        if metrics:
            calls.append((clock[0], [int(metric.value) for metric in metrics]))
            clock[0] += 2
        log_batch(client, run_id, metrics, **others)

    run = runs.start("corpus", {})
    monkeypatch.setattr(MlflowClient, "log_batch", slow)
    for step, now in enumerate((100.0, 300.0, 501.0, 502.0, 903.0, 904.0)):
        clock[0] = now
        run.report(step, {"train/loss": step})
    assert calls == [(100.0, [0]), (502.0, [1, 2, 3]), (904.0, [4, 5])]
    run.report(6, {"train/loss": 6})
    run.log_metrics({"tokens": 100})
    assert calls[3:] == [(906.0, [6]), (908.0, [100])], "what is no curve waits for nothing, and is written in order"
    run.report(7, {"train/loss": 7})
    run.close()
    assert curve(run) == [(step, step) for step in range(8)]


def test_points_wait_after_a_failure_no_longer_than_other_calls(project: None, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, out = [0.0], [True]
    monkeypatch.setattr(outbox.time, "monotonic", lambda: clock[0])
    log_batch = MlflowClient.log_batch

    def slow(*given: Any, **named: Any) -> None:
        clock[0] += 12
        if out[0]:
            raise MlflowException("no answer")
        log_batch(*given, **named)

    run = runs.start("corpus", {})
    monkeypatch.setattr(MlflowClient, "log_batch", slow)
    run.report(1, {"train/loss": 1.0})
    out[0] = False
    for step, now, written in ((2, 131.0, 0), (3, 133.0, 3)):
        clock[0] = now
        run.report(step, {"train/loss": 1.0})
        assert len(curve(run)) == written


def test_what_cannot_be_sent_at_the_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def call() -> None:
        raise OSError("connection refused\nmore")

    box = outbox.Outbox()
    box.send(call)
    box.close(call)
    assert [record.message for record in caplog.records] == [
        "MLflow does not answer, what is for it is kept and sent when it does: connection refused",
        "MLflow does not answer: 2 entries were not written there",
    ]


def test_what_is_refused_for_good_does_not_hold_up_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    done = []

    def refused() -> None:
        raise RestException({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such run"})

    box = outbox.Outbox()
    box.send(refused)
    box.send(refused)
    box.send(lambda: done.append(1))
    assert done == [1] and [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "MLflow refuses an entry, and maybe others like it: RESOURCE_DOES_NOT_EXIST: no such run" in caplog.text
    box.send(refused)
    assert len(caplog.records) == 2


def test_a_store_that_refuses_points_takes_no_more_time_than_one_that_writes_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, asked = [100.0], []

    class Refusing:
        def log_batch(self, *given: object) -> None:
            asked.append(given)
            clock[0] += 0.05
            raise RestException({"error_code": "UNAUTHENTICATED", "message": "the token is of yesterday"})

    monkeypatch.setattr(outbox.time, "monotonic", lambda: clock[0])
    box = outbox.Outbox()
    for step in range(100):
        clock[0] += 0.05
        box.collect(outbox.Points(Refusing(), "run", [Metric("train/loss", 1.0, 0, step)]))  # type: ignore[arg-type]
    assert len(asked) == 1
    assert "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD" in caplog.text


@pytest.mark.parametrize("fails", [False, True])
def test_a_stage_ends_as_its_work_does(
    project: None, fails: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(run: runs.StageRun) -> None:
        Outage(monkeypatch)
        run.log_metrics({"documents": 3})
        run.log_artifacts(Path())
        if fails:
            raise ArtifactError("models: broken; mend it")

    assert stage.main("corpus", body) == (2 if fails else 0)
    assert ("error: models: broken; mend it\n" in capsys.readouterr().err) == fails


def test_a_store_that_cannot_be_used_at_the_start_is_named_without_its_password(
    project: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:se@cret@127.0.0.1:1/store")
    for use in (lambda: runs.start("corpus", {}), lambda: runs.attach("0" * 32)):
        with pytest.raises(UnavailableError) as raised:
            use()
        said = str(raised.value)
        assert re.match(r"MLflow's store http://127.0.0.1:1/store cannot be used \(.*\); start the server, or co", said)
        assert "cret" not in said and "ann:" not in said and "\n" not in said


def test_a_server_that_asks_for_a_password_is_told_from_one_that_is_down(
    project: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(401, "You are not authenticated")

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://ann:secret@127.0.0.1:{server.server_port}")
        with pytest.raises(UnavailableError, match=r"error code 401 .*; set MLFLOW_TRACKING_USERNAME and") as raised:
            runs.start("corpus", {})
        server.shutdown()
    assert "secret" not in str(raised.value) and "\n" not in str(raised.value)


def test_a_file_that_is_no_store_is_named(project: None) -> None:
    Path("mlflow.db").write_text("no database " * 100)
    with pytest.raises(UnavailableError, match=r"mlflow.db cannot be used \(.*not a database.*\); mend the file, or m"):
        runs.start("corpus", {})


def test_a_store_of_another_mlflow_says_how_it_is_upgraded(project: None) -> None:
    runs.start("corpus", {})
    with contextlib.closing(sqlite3.connect("mlflow.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
        database.commit()
    code = "from tasks.tracking import runs; runs.start('corpus', {})"  # this process has looked at the schema already
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    said = f"; make a backup of it, then run `mlflow db upgrade sqlite:///{Path('mlflow.db').resolve()}`"
    assert "out-of-date database schema" in done.stderr and done.stderr.strip().endswith(said)


def test_a_run_is_not_begun_anew_because_the_store_does_not_answer(
    project: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Path("mlflow-run")
    run = runs.start("corpus", {}, memory)

    def get_run(*_: object) -> None:
        raise MlflowException("no answer")

    with monkeypatch.context() as patched, pytest.raises(UnavailableError):
        patched.setattr(MlflowClient, "get_run", get_run)
        runs.start("corpus", {}, memory)
    assert memory.read_text() == run.run_id


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([("corpus", "FINISHED")], "FINISHED"),
        ([("corpus", "FAILED"), ("mask", "FINISHED")], "FAILED"),
        ([("corpus", "KILLED"), ("mask", "FINISHED")], "KILLED"),
        ([("corpus", "KILLED"), ("mask", "FAILED"), ("tokenizer", "FINISHED")], "FAILED"),
        ([("corpus", "FAILED"), ("mask", "FINISHED"), ("corpus", "FINISHED")], "FINISHED"),
    ],
)
def test_the_parent_has_the_worst_end_of_the_newest_run_of_each_stage(
    project: None, ends: list[tuple[str, runs.Status]], expected: str
) -> None:
    for name, status in ends:
        run = runs.start(name, {})
        assert run.client.get_run(run.parent.run_id).info.status == "RUNNING"
        run.end(status)
    assert run.client.get_run(run.parent.run_id).info.status == expected


def test_the_parent_runs_while_a_stage_runs(project: None) -> None:
    first, second = runs.start("corpus", {}), runs.start("mask", {})
    first.end("FAILED")
    assert first.client.get_run(first.parent.run_id).info.status == "RUNNING"
    second.end("FINISHED")
    parent = first.client.get_run(first.parent.run_id).info
    assert parent.status == "FAILED" and parent.end_time is not None
