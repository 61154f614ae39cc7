"""The training processes of a stage: started through Accelerate, told to stop, and never left behind.

The launcher has a session of its own, so that Ctrl-C in a terminal does not end it under its processes: the stage
takes the signal and hands it to them. How each of them ended stands in a file, because the launcher only says that one
failed. While the stage lives it holds a lock on that file, by which they see that it has not been killed.

`python -m tasks.training.launcher` starts the processes of one more machine, as BERTCORE_ACCELERATE_CONFIG says.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import psutil

from bertcore.errors import BAD_INPUT, STOPPED, ConfigError, StoppedError
from bertcore.training.launch import ACCELERATE_CONFIG, launch_command
from tasks.processes import adopt_orphans, checkpoint_grace, end_descendants
from tasks.status import ProcessEnded, exit_status

OWNER = "BERTCORE_STAGE_FILE"
"""Environment variable: the file."""
LOST = 76
"""Status of a process that has lost another one of its training. All notice it, on other machines too."""
UNLIKE = 77
"""Status of a process whose training's processes cannot train together. All of them find it, on other machines too."""

_TOGETHER_SECONDS = 5.0
"""What the other processes of a machine have to end, too, when one has stopped or has noticed that one is lost."""


def run_training(command: list[str], environment: dict[str, str]) -> None:
    """Run `command` to its end. `ProcessEnded` with the status of the training where it failed or was stopped."""
    adopt_orphans()
    grace = checkpoint_grace()
    with tempfile.NamedTemporaryFile(prefix="bertcore-stage-") as file, _Stopping() as stopping:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = subprocess.Popen(command, env={**environment, OWNER: file.name}, start_new_session=True)
        try:
            status = stopping.wait(process, Path(file.name))
        finally:
            end_descendants(grace)  # a second training must not meet the first
        ended = _reported(Path(file.name))
    # A killed launcher is a failure, worth another attempt, though its processes could write a checkpoint.
    if STOPPED in ended and status >= 0:
        raise ProcessEnded(STOPPED)
    if BAD_INPUT in ended or UNLIKE in ended:  # those that waited for such a process have lost it
        raise ProcessEnded(BAD_INPUT)
    if LOST in ended:
        raise ProcessEnded(1)
    if status and stopping.asked:
        raise StoppedError("before the training began; run the same command again")
    if status:
        _raise_explained(ended, killed=status < 0)


def report_end(status: int) -> int:
    """Called by a training process: tell the stage how it ended. The status for the launcher."""
    if file := os.environ.get(OWNER):
        with open(file, "a", encoding="ascii") as owner:
            owner.write(f"{status}\n")
        # What ends all processes together is no failure to a launcher, which would describe it at length.
        return 0 if status in (STOPPED, LOST, UNLIKE) else status
    return status


def _reported(file: Path) -> list[int]:
    """How those processes ended that have."""
    return [int(line) for line in file.read_text(encoding="ascii").split()]


def _raise_explained(ended: list[int], killed: bool) -> NoReturn:
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

    def wait(self, process: "subprocess.Popen[bytes]", file: Path) -> int:
        """The status of the launcher, into whose `file` its processes report.

        A launcher whose processes have stopped, or have lost those of another machine, is ended, which is no failure of
        its own: it would wait five minutes for the other machine's launcher, which a signal may have ended.
        """
        ending: float | None = None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.3)
            if ending is None and {STOPPED, LOST} & set(_reported(file)):
                ending = time.monotonic()
            elif ending is not None and time.monotonic() - ending > _TOGETHER_SECONDS:
                process.kill()
                process.wait()
                return 0
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


def main() -> int:
    """The status of this machine's processes of a training whose stage runs on another one."""
    return exit_status(_join)


def _join() -> None:
    if not os.environ.get(ACCELERATE_CONFIG):
        raise ConfigError(
            f"{ACCELERATE_CONFIG}: found nothing, expected this machine's config, with its machine_rank; see "
            "infra/accelerate/nodes.yaml. A training of one machine begins with `dvc repro`"
        )
    run_training(*launch_command("tasks.training.process"))


if __name__ == "__main__":
    sys.exit(main())
