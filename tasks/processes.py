"""Processes and those that they started: none outlives the one for which it works."""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from bertcore.errors import InputError
from bertcore.variables import positive

PR_SET_CHILD_SUBREAPER = 36
"""Of Linux's prctl.h."""
_CLOCK_SECONDS = 60.0
"""By how much the clock may have been set since a process began."""
_POLL_SECONDS = 0.5
_KILLED_SECONDS = 5.0
"""What a process that was killed has to be gone."""
GRACE = "BERTCORE_GRACE"
"""Environment variable: seconds that a stage has for its checkpoint, once it is asked to stop or works for nobody any
more. Whoever stops a stage reads it, and those around give more."""
_GRACE_SECONDS = 25
"""Without it: Prefect kills a flow 30 s after a cancellation."""
_BEFORE_KILL_SECONDS = 5
"""By how much a training process that is stuck ends itself before the stage would kill it: it says why."""


def checkpoint_grace(default: int = _GRACE_SECONDS) -> int:
    """What `GRACE` says, in seconds; `ConfigError` where it is no number of them."""
    return positive(GRACE, "whole seconds, at least 1") or default


def stuck_grace() -> int:
    """Seconds in which a training process that is asked to stop must have ended a step, or a checkpoint that it was
    writing; at least 20."""
    return max(checkpoint_grace() - _BEFORE_KILL_SECONDS, 20)


def adopt_orphans() -> None:
    """Have every orphan below this process become its child (Linux), so that it can wait for it and end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(grace: float) -> None:
    """Wait until nothing that this process has started runs any more, in other sessions too; after `grace` seconds what
    is left is killed. Orphans among them are seen where `adopt_orphans` was called before."""
    deadline = time.monotonic() + grace
    while (left := psutil.Process().children(recursive=True)) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.1)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=_KILLED_SECONDS)


@dataclass(frozen=True)
class Reproduction:
    """A dvc that runs stages."""

    process: psutil.Process
    command: str
    """`dvc repro` or `dvc exp run`."""

    @property
    def key(self) -> str:
        """The same for all stages of one invocation, and for no other."""
        return f"dvc-{socket.gethostname()}-{self.process.pid}-{_start_of(self.process)}"


def _start_of(process: psutil.Process) -> str:
    """Which boot of the machine it was started in, and how many ticks later: unlike a time of day, no setting of the
    clock changes these (Linux)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return str(process.create_time())
    return f"{boot}-{stat.rpartition(')')[2].split()[19]}"  # proc(5): field 22


def reproduction() -> Reproduction | None:
    """The dvc below which this process runs; None without one."""
    for process in psutil.Process().parents():
        with contextlib.suppress(psutil.Error):
            if command := reproducing(process.cmdline()):
                return Reproduction(process, command)
    return None


def reproducing(arguments: list[str]) -> str | None:
    """The command of dvc that runs stages, if a process with these arguments is one."""
    if not any(Path(argument).name in ("dvc", "dvc.exe") for argument in arguments[:3]):
        return None
    if any(first in ("exp", "experiments") and then in ("run", "exec-run") for first, then in pairwise(arguments)):
        return "dvc exp run"
    return "dvc repro" if "repro" in arguments else None


def refuse_beside_an_experiment(own: Reproduction, root: Path = Path()) -> None:
    """`InputError` where another dvc runs stages in this tree, and one of the two is an experiment.

    `dvc exp run` writes params.yaml, which the stages of the other one read. Two `dvc repro` keep to different stages.
    """
    here = root.resolve()
    related = {each.pid for each in [own.process, *own.process.parents(), *own.process.children(recursive=True)]}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid in related or Path(process.cwd()) != here:
                continue
            command = reproducing(process.cmdline())
            if command and "dvc exp run" in (command, own.command):
                raise InputError(
                    f"{here}: found `{command}` at work (process {process.pid}), expected no other run beside "
                    f"`{own.command}`: an experiment changes params.yaml; wait for its end, stop it (kill -INT "
                    f"{process.pid}), or queue this one (dvc exp run --queue)"
                )


def alive(process: psutil.Process) -> bool:
    """Whether `process` still works: one that has ended and that nobody has waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def identity() -> str:
    """Of this process, which no other one has on any machine."""
    return f"{socket.gethostname()} {os.getpid()} {psutil.Process().create_time():.0f}"


def known_dead(named: str) -> bool:
    """Whether the process of that `identity` was one of this machine and is no more."""
    host, pid, began = named.rsplit(" ", 2)
    if host != socket.gethostname():
        return False
    try:
        process = psutil.Process(int(pid))
        return not alive(process) or abs(process.create_time() - float(began)) > _CLOCK_SECONDS
    except psutil.NoSuchProcess:
        return True


def end_with(process: psutil.Process) -> None:
    """Have this process stop as by SIGTERM as soon as `process` is no more, and end for certain after a grace."""
    grace = checkpoint_grace()

    def watch() -> None:
        while alive(process):
            time.sleep(_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with").start()
