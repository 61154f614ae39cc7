"""The training processes of a stage: started through Accelerate, told to stop, and never left behind.

The launcher has a session of its own, so that Ctrl-C in a terminal does not end it under its processes: the stage
takes the signal and hands it to them. How each of them ended stands in a file, because the launcher only says that one
failed. While the stage lives it holds a lock on that file, by which they see that it has not been killed.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import psutil

from bertcore.errors import BAD_INPUT, STOPPED, StoppedError
from tasks.processes import adopt_orphans
from tasks.status import ProcessEnded

OWNER = "BERTCORE_STAGE_FILE"
"""Environment variable: the file."""

_LEFT_BEHIND_SECONDS = 25.0
"""What processes whose launcher is no more have for their checkpoint."""


def run_training(command: list[str], environment: dict[str, str]) -> None:
    """Run `command` to its end. `ProcessEnded` with the status of the training where it failed or was stopped."""
    adopt_orphans()
    with tempfile.NamedTemporaryFile(prefix="bertcore-stage-") as file, _Stopping() as stopping:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = subprocess.Popen(command, env={**environment, OWNER: file.name}, start_new_session=True)
        try:
            status = stopping.wait(process)
        finally:
            _end_the_rest()
        ended = [int(line) for line in Path(file.name).read_text(encoding="ascii").split()]
    # A killed launcher is a failure, worth another attempt, though its processes could write a checkpoint.
    if STOPPED in ended and status >= 0:
        raise ProcessEnded(STOPPED)
    if status and stopping.asked:
        raise StoppedError("before the training began; run the same command again")
    if status:
        _explain(ended, killed=status < 0)


def report_end(status: int) -> int:
    """Called by a training process: tell the stage how it ended. The status for the launcher."""
    if file := os.environ.get(OWNER):
        with open(file, "a", encoding="ascii") as owner:
            owner.write(f"{status}\n")
        # That all stopped together is no failure to a launcher, which would describe it at length.
        return 0 if status == STOPPED else status
    return status


def _explain(ended: list[int], killed: bool) -> None:
    if BAD_INPUT in ended:
        raise ProcessEnded(BAD_INPUT)
    if killed or not ended:
        print(
            "error: a training process was killed, or its launcher was (out of memory?); run the same command again to "
            "go on from the last checkpoint",
            file=sys.stderr,
        )
    raise ProcessEnded(1)


class _Stopping:
    """While open, hands SIGTERM and SIGINT to the processes of a launcher."""

    def __init__(self) -> None:
        self.asked = False
        self._told = False

    def __enter__(self) -> "_Stopping":
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, process: "subprocess.Popen[bytes]") -> int:
        """The status of the launcher."""
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.3)
            if self.asked and not self._told:
                self._told = _tell(process.pid)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


def _tell(launcher: int) -> bool:
    """SIGTERM to the processes of the launcher; False where it has none yet."""
    told = False
    for process in _children(launcher):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
            told = True
    return told


def _children(launcher: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        yield from psutil.Process(launcher).children()


def _end_the_rest() -> None:
    """Wait until nothing started here runs any more: a second training must not meet the first."""
    _, left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=_LEFT_BEHIND_SECONDS)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=5)
