"""The first process of a container: runs a command, and ends when all that it has started is over.

A container ends with its first process, and whatever still works in it is killed. A Prefect worker that is told to stop
leaves the stages of its runs, which write a checkpoint first.

Usage: python first_process.py COMMAND…
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
"""Of Linux's prctl.h. The first process of a container has its orphans anyway."""


def main(command: list[str]) -> int:
    """The command's exit status. What is left after it has as long as a stage has for its checkpoint."""
    grace = os.environ.get("BERTCORE_GRACE") or "100"
    if not (grace.isascii() and grace.isdecimal()):
        sys.exit(f"error: BERTCORE_GRACE: found {grace!r}, expected whole seconds; correct the variable")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(command)

    def pass_on(given: int, _: object) -> None:
        # Not `child.send_signal`, which would take the status of a child that has just ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, given)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    status = _status_of(child.pid)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # what is left ends by itself
    deadline = time.monotonic() + int(grace)
    while time.monotonic() < deadline:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # none is left
            break
        if not ended:
            time.sleep(0.1)
    return status if status >= 0 else 128 - status


def _status_of(wanted: int) -> int:
    """Of the child, when it has ended. Orphans that end before it are nobody else's: unasked for, they would still be
    there for whoever looks whether a process is alive, such as DVC for its locks."""
    while True:
        ended, status = os.wait()
        if ended == wanted:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
