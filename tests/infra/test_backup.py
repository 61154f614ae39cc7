"""A tree's databases are saved while it works and brought back, with the commands of infra/README.md."""

import re
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

from tests.import_closure import ROOT
from tests.samples import empty_store

README = (ROOT / "infra" / "README.md").read_text(encoding="utf-8")
BACKUP = re.search(r'^sqlite3 [^`]+?"\.backup mlflow\.backup"', README, re.MULTILINE)
RESTORE = re.search(r"`(rm -f mlflow\.db[^`]+)`", README)

pytestmark = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3: apt-get install sqlite3")


def test_what_was_there_at_the_backup_is_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One database is written to all the time; the other one's writer lets nobody read for a while."""
    assert BACKUP and RESTORE
    monkeypatch.chdir(tmp_path)
    shutil.copy(empty_store(), tmp_path)
    Path(".prefect").mkdir()
    prefect = sqlite3.connect(".prefect/prefect.db", isolation_level=None, check_same_thread=False)
    prefect.execute("CREATE TABLE runs (id)")
    prefect.execute("BEGIN EXCLUSIVE")
    prefect.execute("INSERT INTO runs VALUES (1)")
    threading.Timer(2.0, lambda: prefect.execute("COMMIT")).start()
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = client.create_run("0").info.run_id

    before, after = _while_written(client, run, lambda: subprocess.run(BACKUP[0], shell=True, check=True))
    for name in ("mlflow.db", "mlflow.db-journal"):
        Path(name).write_bytes(b"what a full disk left")
    subprocess.run(RESTORE[1], shell=True, check=True)

    for name in ("mlflow.db", "prefect.backup"):
        with closing(sqlite3.connect(name)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with closing(sqlite3.connect("prefect.backup")) as database:
        assert database.execute("SELECT * FROM runs").fetchall() == [(1,)]
    again = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}").get_metric_history(run, "loss")
    assert before <= len(again) <= after
    assert [point.step for point in again] == list(range(len(again)))
    assert not Path("mlflow.db-journal").exists()


def _while_written(client: MlflowClient, run: str, work: Callable[[], object]) -> tuple[int, int]:
    """Do `work` while a thread writes; the points that were written before it, and after it at most."""
    steps: list[int] = []
    enough, ended = threading.Event(), threading.Event()

    def write() -> None:
        while not ended.is_set():
            client.log_batch(run, [Metric("loss", 1.0, 0, len(steps))])
            steps.append(len(steps))
            if len(steps) == 20:
                enough.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert enough.wait(60)
        before = len(steps)
        work()
        return before, len(steps) + 1
    finally:
        ended.set()
        writer.join()
