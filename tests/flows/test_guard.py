"""A guarded command ends with its owner, whatever kills the owner, and takes along what it started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from flows.guard import guarded, release
from tasks.processes import alive

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}

# Writes its own and its child's process ids, the child in a session of its own; ends on SIGINT if it is polite.
COMMAND = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
def stop(*_):
    open("stopped", "w").write("yes")
    os._exit(75)
signal.signal(signal.SIGINT, stop if sys.argv[1] == "polite" else signal.SIG_IGN)
open("pids.part", "w").write(f"{os.getpid()} {child.pid}")
os.rename("pids.part", "pids")
time.sleep(60)
"""

OWNER = """
import sys, time
from flows.guard import guarded
guarded([sys.executable, "-c", open("command.py").read(), sys.argv[1]], stop_signal="SIGINT", grace=0.5, cwd=".")
time.sleep(60)
"""


def gone(processes: list[psutil.Process], within: float) -> bool:
    deadline = time.monotonic() + within
    while any(map(alive, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("manner", ["polite", "stubborn"])
def test_a_killed_owner_takes_everything_along(tmp_path: Path, manner: str) -> None:
    (tmp_path / "command.py").write_text(COMMAND)
    owner = subprocess.Popen([sys.executable, "-c", OWNER, manner], cwd=tmp_path, env=ENVIRONMENT)
    while not (tmp_path / "pids").exists():
        assert owner.poll() is None
        time.sleep(0.02)
    processes = [psutil.Process(int(pid)) for pid in (tmp_path / "pids").read_text().split()]
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert gone(processes, within=10.0)
    assert (tmp_path / "stopped").exists() == (manner == "polite")


@pytest.mark.parametrize(("code", "status"), [("0", 0), ("75", 75)])
def test_the_status_is_the_commands_own(code: str, status: int) -> None:
    process = guarded([sys.executable, "-c", f"raise SystemExit({code})"], stop_signal="SIGINT", grace=1.0)
    assert process.wait(20) == status
    assert release(process, timeout=1.0) == status


def test_a_command_killed_by_a_signal_says_so_and_leaves_no_child(tmp_path: Path) -> None:
    process = guarded(
        [sys.executable, "-c", COMMAND, "polite"], stop_signal="SIGINT", grace=1.0, cwd=tmp_path, env=ENVIRONMENT
    )
    while not (tmp_path / "pids").exists():
        time.sleep(0.02)
    processes = [psutil.Process(int(pid)) for pid in (tmp_path / "pids").read_text().split()]
    processes[0].kill()
    assert process.wait(20) == 128 + signal.SIGKILL
    assert gone(processes, within=10.0)
    release(process, timeout=1.0)
