"""How much memory this process has held, and one line with the remedy where memory does not suffice."""

import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from bertcore.errors import TrainingError

_STATUS = Path("/proc/self/status")


class TooLargeError(TrainingError):
    """The memory of this process does not suffice; other processes of the same training may have more."""


def peak_bytes() -> int:
    """Resident at once, at most. On Linux by the kernel's mark of this program alone: the `ru_maxrss` of a process
    begins with that of the one that started it."""
    if _STATUS.is_file() and (found := re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="utf-8"))):
        return 1024 * int(found[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


@contextmanager
def explained(what: str, *remedies: str) -> Iterator[None]:
    """Where torch or numpy cannot get the memory, raise in place of their words a `TooLargeError` that `what` ("9
    sequences at once do") does not fit, with the `remedies` to set."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        known = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)
        if not known:
            raise
        raise TooLargeError(f"{what} not fit into the memory; set {' or '.join(remedies)}") from error
