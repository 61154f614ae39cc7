"""A stage ends with the dvc that started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from bertcore.errors import ConfigError, InputError, StoppedError
from tasks import processes
from tasks.training import process
from tests.import_closure import ROOT

STAGE = """
import sys, time
from pathlib import Path
from tasks import stage

def body(run):
    Path("started").touch()
    try:
        time.sleep(60)
    finally:
        Path("ended").touch()

sys.exit(stage.main("corpus", body))
"""


def test_a_stage_whose_dvc_is_killed_stops(tmp_path: Path) -> None:
    (tmp_path / "stage.py").write_text(STAGE)
    (tmp_path / "dvc.yaml").write_text(f"stages: {{corpus: {{cmd: {sys.executable} stage.py, params: [corpus]}}}}\n")
    (tmp_path / "params.yaml").write_text("corpus: {seed: 1}\n")
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    no_scm = true\n    analytics = false\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    environment |= {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "dvc", "repro"]
    with (tmp_path / "log").open("w") as log:
        dvc = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    until(lambda: (tmp_path / "started").exists(), tmp_path / "log")
    below = psutil.Process(dvc.pid).children(recursive=True)
    dvc.send_signal(signal.SIGKILL)
    dvc.wait()
    until(lambda: (tmp_path / "ended").exists(), tmp_path / "log")
    until(lambda: not any(processes.alive(process) for process in below), tmp_path / "log")


def pretend(directory: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """A process in `directory` whose command is that of a dvc."""
    (directory / "dvc").write_text("import time; print(flush=True); time.sleep(60)")
    command = [sys.executable, "dvc", *arguments]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (["repro"], ["exp", "run", "-S", "a=1"], True),
        (["exp", "run"], ["repro"], True),
        (["repro"], ["repro"], False),
    ],
)
def test_an_experiment_and_another_run_in_one_tree(
    tmp_path: Path, first: list[str], second: list[str], refused: bool
) -> None:
    (tmp_path / "other").mkdir()
    working, own = pretend(tmp_path, *first), pretend(tmp_path, *second)
    elsewhere = pretend(tmp_path / "other", "exp", "run")
    try:
        process = psutil.Process(own.pid)
        command = processes.reproducing(process.cmdline())
        assert command is not None
        called = processes.Reproduction(process, command)
        if refused:
            with pytest.raises(InputError, match=f"at work .process {working.pid}.*wait for its end"):
                processes.refuse_beside_an_experiment(called, tmp_path)
        else:
            processes.refuse_beside_an_experiment(called, tmp_path)
    finally:
        for each in (working, own, elsewhere):
            each.kill()
            each.communicate()


def until(ready: object, log: Path) -> None:
    deadline = time.monotonic() + 400.0
    while not ready():  # type: ignore[operator]
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_a_process_that_has_ended_is_not_alive_though_nobody_waits_for_it() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    seen = psutil.Process(child.pid)
    deadline = time.monotonic() + 60.0
    while seen.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.02)
    assert seen.is_running() and not processes.alive(seen)
    child.wait()
    assert not processes.alive(seen)


def test_without_a_dvc_above_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil.Process, "parents", lambda self: [])
    assert processes.reproduction() is None


def test_the_identity_of_a_process_tells_whether_it_is_dead(tmp_path: Path) -> None:
    assert not processes.known_dead(processes.identity())
    host, pid, began = processes.identity().rsplit(" ", 2)
    assert processes.known_dead(f"{host} {pid} {float(began) - 3600:.0f}"), "another process has its number now"
    assert not processes.known_dead(f"{host}x {pid} 0"), "of other machines nothing is known"
    code = "from tasks.processes import identity; print(identity())"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert processes.known_dead(ended.stdout.strip())


def test_the_key_of_a_dvc_outlasts_a_clock_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    own = processes.Reproduction(psutil.Process(), "dvc repro")
    key = own.key
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: 0.0)
    assert own.key == key and str(os.getpid()) in key


ORPHAN = """
import signal, subprocess, sys, time
import psutil
from tasks.processes import end_with
signal.signal(signal.SIGTERM, lambda *_: None)
with subprocess.Popen(["true"]) as owner:
    end_with(psutil.Process(owner.pid))
time.sleep(60)
"""


def test_who_works_for_nobody_has_the_seconds_that_the_environment_gives() -> None:
    command = [sys.executable, "-c", ORPHAN]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {processes.GRACE: "1"}, timeout=20, check=False)
    assert done.returncode == 1


def test_seconds_for_a_checkpoint_are_whole_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(processes.GRACE, "")
    assert (processes.checkpoint_grace(), processes.checkpoint_grace(120)) == (25, 120)
    monkeypatch.setenv(processes.GRACE, "60")
    assert (processes.checkpoint_grace(), processes.checkpoint_grace(120)) == (60, 60)
    for wrong in ("0", "2m", "1.5", "٣٠"):
        monkeypatch.setenv(processes.GRACE, wrong)
        with pytest.raises(ConfigError, match=f"BERTCORE_GRACE: found '{wrong}', expected whole seconds"):
            processes.checkpoint_grace()


@pytest.mark.parametrize(("stage", "own"), [("", 20), ("10", 20), ("120", 115)])
def test_a_training_process_that_is_stuck_ends_before_its_stage_kills_it(
    stage: str, own: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def stop(grace: float) -> NoReturn:
        asked.append(grace)
        raise StoppedError

    monkeypatch.setenv(processes.GRACE, stage)
    monkeypatch.setattr(process, "StopRequest", stop)
    with pytest.raises(StoppedError):
        process.main()
    assert asked == [own]
