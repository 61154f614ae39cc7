"""What is given to Slurm, and what a job makes of what Slurm says; on a real one: test_slurm.py."""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertcore.errors import STOPPED, UNAVAILABLE
from flows.guard import guarded
from infra.slurm import job
from tests.import_closure import ROOT

SBATCH = """#!/bin/sh
printf '%s\\n' "$*" >> jobs.log
wc -l < jobs.log
"""


def submitted(tree: Path, *arguments: str, **variables: str) -> list[list[str]]:
    """The words of the three commands that infra/slurm/submit.sh gives to a stand-in for sbatch."""
    (tree / "bin").mkdir()
    (tree / "bin" / "sbatch").write_text(SBATCH)
    (tree / "bin" / "sbatch").chmod(0o755)
    script = tree / "infra" / "slurm" / "submit.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / "infra" / "slurm" / "submit.sh", script)
    path = os.pathsep.join([str(tree / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run([str(script), *arguments], env=os.environ | {"PATH": path} | variables, cwd=tree, check=True)
    return [line.split() for line in (tree / "jobs.log").read_text().splitlines()]


def test_a_job_has_options_of_its_own_behind_those_of_all(tmp_path: Path) -> None:
    (tmp_path / "node1").touch()  # which a pattern would find
    data, pretrain, finetune = submitted(
        tmp_path,
        *("2", "--gres=gpu:8", "--time=8:00:00"),
        BERTCORE_SBATCH_DATA="--gres=none  --exclude=node[1-4]",
        BERTCORE_SBATCH_FINETUNE="--gres=gpu:2",
    )
    common, script = ["--gres=gpu:8", "--time=8:00:00"], "infra/slurm/job.sh"
    assert data[-7:] == [*common, "--gres=none", "--exclude=node[1-4]", script, "mask", "contamination"]
    assert pretrain[-4:] == [*common, script, "pretrain"] and "--nodes=2" in pretrain
    assert finetune[-4:] == [*common, "--gres=gpu:2", script] and "--dependency=afterok:2" in finetune


@pytest.mark.parametrize("wrong", ["2m", "090"])
def test_seconds_that_are_none_submit_no_job(tmp_path: Path, wrong: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        submitted(tmp_path, BERTCORE_GRACE=wrong)
    assert f"BERTCORE_GRACE: found '{wrong}', expected whole seconds" in capfd.readouterr().err
    assert not (tmp_path / "jobs.log").exists()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("RunTime=07:57:10 TimeLimit=08:00:00 TimeMin=N/A", True),
        ("RunTime=00:57:10 TimeLimit=08:00:00 TimeMin=N/A", False),
        ("RunTime=1-23:59:00 TimeLimit=2-00:00:00 TimeMin=N/A", True),
        ("RunTime=23:59:00 TimeLimit=1-12:00:00 TimeMin=N/A", False),
        ("RunTime=1-23:59:00 TimeLimit=UNLIMITED TimeMin=N/A", False),
        ("", False),
    ],
)
def test_a_job_at_its_limit_is_told_from_one_that_makes_room(shown: str, expected: bool) -> None:
    assert job.at_limit(shown) == expected


def test_a_lock_is_nothing_that_a_job_has_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "ROOT", tmp_path)
    monkeypatch.setenv("BERTCORE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "room").mkdir(parents=True)
    before = job.kept()
    (tmp_path / "cache" / "mlflow-0.lock").touch()
    (tmp_path / "cache" / "room" / "slot-0").touch()
    assert job.kept() == before
    (tmp_path / "cache" / "room" / "corpus.txt.part").write_text("half")
    assert job.kept() != before


@pytest.mark.parametrize(("others", "further", "expected"), [(1, 0, UNAVAILABLE), (STOPPED, 0, 0), (1, 1, 0)])
def test_a_node_that_waits_for_others_that_have_failed_ends(
    others: int, further: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were stopped leave the first one time for its checkpoint, and it is not ended where it has come
    further: then it needs them no more."""
    states = itertools.chain([(b"", {})], itertools.repeat((b"", {"checkpoint": further} if further else {})))
    stage = [sys.executable, "-c", "import time; time.sleep(8)"]

    @contextlib.contextmanager
    def other_nodes(*_: object) -> Iterator["subprocess.Popen[bytes]"]:
        with subprocess.Popen([sys.executable, "-c", f"raise SystemExit({others})"]) as step:
            yield step

    with contextlib.ExitStack() as ended:
        monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
        monkeypatch.setattr(job, "_NOTICED_SECONDS", 1)
        monkeypatch.setattr(job, "kept", lambda: next(states))
        monkeypatch.setattr(job, "_requeue", lambda *_: 0)
        monkeypatch.setattr(job, "write_config", lambda *_, **__: "node.yaml")
        monkeypatch.setattr(job, "_other_nodes", other_nodes)
        monkeypatch.setattr(job, "guarded", lambda _, **options: ended.enter_context(guarded(stage, **options)))
        monkeypatch.setattr(job.signal, "signal", lambda *_: None)
        assert job.main(["pretrain"]) == expected
