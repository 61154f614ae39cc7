"""Asking a training to stop: by SIGTERM or SIGINT, or because the process that started it has ended.

The training looks at `StopRequest.requested` after each step, writes a checkpoint and ends. Where it does not look in
time, because it waits for a process that is no more, it is ended here, without a checkpoint.
"""

import ctypes
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from bertcore.errors import STOPPED
from bertcore.files import is_locked

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
"""Of Linux's prctl.h."""


class StopRequest:
    """Whether this process was asked to stop, and what becomes of it where it cannot."""

    def __init__(self, grace: float = 20.0) -> None:
        """`grace`: seconds that nobody may have read `requested`; twice the longest pause between two readings so far,
        where that is more."""
        self._asked, self._noticed, self._grace = threading.Event(), threading.Event(), grace
        self._read_last: float | None = None

    @property
    def requested(self) -> bool:
        """True from the request on. Reading it tells that the training is still at work."""
        now = time.monotonic()
        if self._read_last is not None:
            self._grace = max(self._grace, 2 * (now - self._read_last))
        self._read_last = now
        if self._asked.is_set():
            self._noticed.set()
            return True
        return False

    def ask(self, reason: str) -> None:
        """Request the stop; end the process with STOPPED if nobody has read `requested` after the grace."""
        if self._asked.is_set():
            return
        logger.info("%s: stopping after this step", reason)
        self._asked.set()
        threading.Thread(target=self._end_if_stuck, daemon=True, name="stop-grace").start()

    def listen(self) -> None:
        """Take SIGTERM and SIGINT as requests from now on. Call it in the main thread."""
        # The handlers themselves would wait until a collective operation returns, which it may never do.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _nothing)
        threading.Thread(target=self._read, args=(reader,), daemon=True, name="stop-signals").start()

    def follow(self, owner: Path | None) -> None:
        """Stop when the parent process ends, or the one that holds a lock on the file `owner`."""
        parent = os.getppid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        threading.Thread(target=self._watch, args=(parent, owner), daemon=True, name="stop-orphan").start()

    def _read(self, pipe: int) -> None:
        while numbers := os.read(pipe, 64):
            for number in numbers:
                if number in (signal.SIGTERM, signal.SIGINT):
                    self.ask(signal.Signals(number).name)

    def _watch(self, parent: int, owner: Path | None) -> None:
        while os.getppid() == parent and (owner is None or is_locked(owner)):
            time.sleep(1.0)
        self.ask("the process that started this training has ended")

    def _end_if_stuck(self) -> None:
        if not self._noticed.wait(self._grace):
            logger.error("no step has ended in %g s: ending without a checkpoint", self._grace)
            os._exit(STOPPED)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """In place of the default action; the number itself goes through the wakeup pipe."""
