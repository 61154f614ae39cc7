"""The order of training: which instances step `s` sees is a function of (seed, s) alone.

Ranks take every world-size-th sequence of the global batch, so any number of them sees the same global batches, and
training starts at any step at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertcore.data import draws
from bertcore.data.instances import Instances, InstanceSource
from bertcore.errors import InputError


OpenEpoch = Callable[[int], Sequence[InstanceSource]]
"""An epoch, from 0 -> its sources."""


@dataclass
class Loader:
    """Global batches of `batch_size` sequences from `open_epoch(epoch)`, the sources of an epoch.

    The sequences of an epoch that do not fill a last batch wait for the next epoch's order.
    """

    open_epoch: OpenEpoch
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        self._epoch, self._first_step = -1, 0
        self._next_epoch()

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Instances:
        """The sequences of `rank` in the global batch of `step` (counted from 0)."""
        if step < self._first_step:
            self._epoch, self._first_step = -1, 0
            self._next_epoch()
        while step >= self._first_step + self._steps:
            self._first_step += self._steps
            self._next_epoch()
        first = (step - self._first_step) * self.batch_size
        return self._take(self._order[first + rank : first + self.batch_size : world_size])

    @property
    def epoch(self) -> int:
        """Of the batch last asked for, counted from 0."""
        return self._epoch

    @property
    def steps_per_epoch(self) -> int:
        return self._steps

    def _next_epoch(self) -> None:
        self._epoch += 1
        self._sources = self.open_epoch(self._epoch)
        self._ends = np.cumsum([len(source) for source in self._sources])
        count = int(self._ends[-1])
        self._steps = count // self.batch_size
        if not self._steps:
            raise InputError(
                f"params.yaml: pretrain.batch_size: found {self.batch_size}, but an epoch has only {count} sequences; "
                "lower batch_size or give more text"
            )
        self._order = draws.permutation(draws.key("order", self.seed, self._epoch), count)

    def _take(self, rows: NDArray[np.int64]) -> Instances:
        """Rows of several sources, in the order asked for."""
        which = np.searchsorted(self._ends, rows, side="right")
        starts = np.concatenate([[0], self._ends[:-1]])
        touched = np.unique(which)
        parts = [self._sources[source].take(rows[which == source] - starts[source]) for source in touched]
        grouped = np.concatenate([np.flatnonzero(which == source) for source in touched])
        return Instances.concatenate(parts).take(np.argsort(grouped))


@dataclass
class Phases:
    """Loaders one after the other: each from its own first step on, counted from 0 in its own batches."""

    loaders: Sequence[tuple[int, Loader]]
    """(first step, loader), ascending from step 0."""

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Instances:
        """As `Loader.batch`, from the loader in whose phase `step` lies."""
        first, loader = next(phase for phase in reversed(self.loaders) if phase[0] <= step)
        return loader.batch(step - first, rank, world_size)
