"""A tree's databases are saved while it works and brought back, with the commands of infra/README.md."""

import re
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

from tests.import_closure import ROOT
from tests.samples import empty_store

README = (ROOT / "infra" / "README.md").read_text(encoding="utf-8")
BACKUP = re.search(r"^for name in \.prefect/prefect mlflow; do.*?^done$", README, re.MULTILINE | re.DOTALL)
RESTORE = re.search(r"`(rm -f mlflow\.db-wal [^`]+)`", README)

pytestmark = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3: apt-get install sqlite3")


def test_what_was_there_at_the_backup_is_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BACKUP and RESTORE
    monkeypatch.chdir(tmp_path)
    shutil.copy(empty_store(), tmp_path)
    Path(".prefect").mkdir()
    sqlite3.connect(".prefect/prefect.db").execute("CREATE TABLE runs (id)").connection.close()
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = client.create_run("0").info.run_id
    written, enough, ended = 0, threading.Event(), threading.Event()

    def write() -> None:
        nonlocal written
        while not ended.is_set():
            client.log_batch(run, [Metric("loss", 1.0 / (written + 1), 0, written)])
            written += 1
            if written == 20:
                enough.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert enough.wait(60)
        before = written
        subprocess.run(BACKUP[0], shell=True, check=True)
        after = written + 1
    finally:
        ended.set()
        writer.join()
    for lost in tmp_path.glob("mlflow.db*"):
        lost.write_bytes(b"what a full disk left")
    subprocess.run(RESTORE[1], shell=True, check=True)

    assert Path("prefect.backup").is_file()
    with closing(sqlite3.connect("mlflow.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    again = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}").get_metric_history(run, "loss")
    assert before <= len(again) <= after
    assert [point.step for point in again] == list(range(len(again)))
