"""Waiting for what other processes do."""

import time
from collections.abc import Callable


def until(ready: Callable[[], bool], seen: Callable[[], str], seconds: float) -> None:
    """Ask until it is ready; AssertionError after `seconds`, with what is `seen` then."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, seen()
        time.sleep(0.3)
