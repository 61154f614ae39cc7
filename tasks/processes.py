"""Processes and those that they started: none outlives the one for which it works."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

PR_SET_CHILD_SUBREAPER = 36
"""Of Linux's prctl.h."""
_POLL_SECONDS = 0.5
_GRACE_SECONDS = 25.0
"""What a process has to write a checkpoint once the one for which it works is no more."""


def adopt_orphans() -> None:
    """Have every orphan below this process become its child (Linux), so that it can wait for it and end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with(alive: Callable[[], bool]) -> None:
    """Have this process stop as by SIGTERM as soon as `alive` is False, and end for certain after a grace."""

    def watch() -> None:
        while alive():
            time.sleep(_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with").start()
