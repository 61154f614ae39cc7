"""Run a command that ends when its owner ends, however the owner ends.

`python -m flows.guard SIGNAL GRACE COMMAND…`: the owner keeps the other end of the guard's standard input. When that
pipe closes, because the owner closed it or was killed, even with SIGKILL, every process of the guard's group gets
SIGNAL, and after GRACE seconds whatever is left, in this group or below it, gets SIGKILL. The exit status is the
command's own. A pipe works on every POSIX system and, unlike Linux's parent-death signal, does not depend on the thread
that forked.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any

from flows.devices import keep_to_cores
from flows.environment import ROOT, UTF8
from tasks.processes import adopt_orphans, end_descendants


def guarded(command: Sequence[str], *, stop_signal: str, grace: float, **options: Any) -> "subprocess.Popen[str]":
    """Start `command` under a guard of its own, in a session and process group of its own.

    `stop_signal` is a name such as SIGINT, `grace` is in seconds; `options` go to Popen.
    """
    guard = [sys.executable, "-m", "flows.guard", stop_signal, str(grace), *command]
    options = {"cwd": ROOT, **UTF8, **options}
    return subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True, **options)


def release(process: "subprocess.Popen[str]", *, timeout: float) -> int | None:
    """Let the guard end its command and wait for it; None when it is still there after `timeout` seconds."""
    if process.stdin is not None and not process.stdin.closed:
        process.stdin.close()
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None


def main(arguments: list[str]) -> int:
    stop_signal, grace, command = signal.Signals[arguments[0]], float(arguments[1]), arguments[2:]
    owner = os.fdopen(os.dup(0), "rb", buffering=0)
    # Handlers, unlike SIG_IGN, are not inherited by the command: the guard outlives a signal to the group.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    adopt_orphans()
    keep_to_cores()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    orphaned = threading.Event()
    threading.Thread(target=_watch, args=(owner, orphaned, stop_signal), daemon=True).start()
    status = _wait(child, orphaned)
    if killed := status is not None and status < 0:
        os.killpg(0, stop_signal)
    # What has an own way to stop gets the time for it: the stages below a worker, which write a checkpoint.
    end_descendants(grace if killed or orphaned.is_set() else 0.0)
    if orphaned.is_set():
        os.killpg(0, signal.SIGKILL)
    assert status is not None
    return status if status >= 0 else 128 - status


def _watch(owner: IO[bytes], orphaned: threading.Event, stop_signal: int) -> None:
    while owner.read(4096):
        pass
    orphaned.set()
    os.killpg(0, stop_signal)


def _wait(child: "subprocess.Popen[bytes]", orphaned: threading.Event) -> int | None:
    """The child's status, or None when the owner ended before the child."""
    while not orphaned.is_set():
        try:
            return child.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
