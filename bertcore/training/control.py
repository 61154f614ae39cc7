"""What the processes of one training tell each other beside the gradients: numbers, added up on the CPU.

The GPUs' own exchange would make every process wait for its device; this one goes past it, through gloo. It also tells
at once when a process was lost: its connections close.
"""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import distributed

Value = TypeVar("Value")


class Control:
    """Exchange between the processes; with one process everything stays as it is."""

    def __init__(self, world_size: int) -> None:
        self._group = distributed.new_group(backend="gloo") if world_size > 1 else None

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


def lost_a_process(error: RuntimeError) -> bool:
    """Whether an exchange failed because a process at its other end is no more."""
    return any(sign in str(error) for sign in ("closed by peer", "reset by peer", "Broken pipe", "Socket Timeout"))
