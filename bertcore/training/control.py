"""What the processes of one training tell each other beside the gradients, and how it is seen that one is no more."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed

from bertcore.errors import TrainingError

Value = TypeVar("Value")

_LONGEST_WAIT = timedelta(days=1)
"""While rank 0 saves a large model and tries it in another process. That a process is no more is known otherwise."""


class Control:
    """What the processes of one training tell each other beside the gradients; with one, everything stays as it is.

    The GPUs' own exchange would make every process wait for its device; this one goes past it, through gloo. It also
    tells at once when a process was lost: its connections close.
    """

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self._group = distributed.new_group(timeout=_LONGEST_WAIT, backend="gloo") if world_size > 1 else None

    @property
    def main(self) -> bool:
        """Whether this is rank 0."""
        return self._group is None or distributed.get_rank() == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each of `values` added over all processes, in float64; the same result in all of them."""
        if self._group is None:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(sums, group=self._group)
        return sums.tolist()

    def any(self, flag: bool) -> bool:
        """Whether `flag` is set in any process."""
        return self.sum([float(flag)])[0] > 0

    def gather(self, value: Value) -> list[Value]:
        """`value` of every process, by rank."""
        if self._group is None:
            return [value]
        values = [value] * distributed.get_world_size(self._group)
        distributed.all_gather_object(values, value, group=self._group)
        return values

    def on_main(self, work: Callable[[], object]) -> None:
        """Do `work` on rank 0; its `TrainingError` is raised in every process, so that none waits for another."""
        problem = ""
        if self.main:
            try:
                work()
            except TrainingError as error:
                problem = str(error)
        if problem := "".join(self.gather(problem)):
            raise TrainingError(problem)


def how_lost(error: RuntimeError) -> str:
    """What an exchange says that failed because a process at its other end is no more; empty where it failed
    otherwise."""
    found = _LOST.search(str(error))
    return found[1] if found else ""


_LOST = re.compile(
    r"(?:\[\S+\.cc:\d+\] )?(.*?(?:closed by peer|reset by peer|Broken pipe|Socket Timeout)(?: \[\S+\]:\d+)?)"
)
"""Without the place in gloo's code before it, and its advice after it."""


def how_failed(error: RuntimeError) -> str:
    """What this process's GPU, or the exchange with the other processes, says that failed; empty for other errors."""
    said = str(error)
    if not isinstance(error, (distributed.DistError, torch.AcceleratorError)) and not _GLOO.search(said):
        return ""
    first, _, cause = (part.strip() for part in said.partition("\nLast error:"))
    return " ".join(_PLACE.sub("", part.splitlines()[0]) for part in (first, cause) if part)


_GLOO = re.compile(r"^Gloo |/gloo/|^Wait timeout$")
"""Its errors have no class of their own."""
_PLACE = re.compile(r"\[\S+\.(?:cc|h):\d+\] | in: \S+\.cpp:\d+(?=,)")
"""In torch's code."""
