"""The order of training: which instances step `s` sees, and by which rule they are masked, depends on (seed, s) alone.

Sequences follow each other without end: those of epoch 0, of epoch 1 and so on, `batch_size` a step. All epochs have
the same number of them, so the place of any step is arithmetic. Within an epoch the shards are shuffled, and the
sequences of `pool` neighbouring shards together: only those shards are open at a time, however many there are.

Ranks take every world-size-th sequence of the global batch, so any number of them sees the same global batches.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bertcore import draws
from bertcore.errors import InputError
from bertcore.instances.arrays import Instances
from bertcore.instances.config import MaskingRule
from bertcore.instances.sources import InstanceSource, Joined, joined
from bertcore.ragged import offsets_of

_KEPT = 3
"""Pools and epochs that stay open: of the step in use, of the one before and of the one being made in advance."""


OpenEpoch = Callable[[int], Sequence[InstanceSource]]
"""The sources of an epoch, one a shard, as many sequences of each in every epoch."""


Made = TypeVar("Made")


def prefetch(make: Callable[[int], Made], start: int, ahead: int = 4) -> Iterator[Made]:
    """What `make` gives for steps `start`, `start` + 1, … without end, `ahead` of them in advance, in a thread.

    Close the iterator to end the thread.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix="loader")
    waiting: deque[Future[Made]] = deque()
    try:
        for step in count(start):
            waiting.append(executor.submit(make, step))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class _Epoch:
    """The order of the shards in an epoch."""

    shards: NDArray[np.int64]
    bounds: NDArray[np.int64]
    """Where each pool begins in the sequences of the epoch, and the end."""

    @classmethod
    def of(cls, counts: NDArray[np.int64], pool: int, seed: int, epoch: int) -> "_Epoch":
        shards = draws.permutation(draws.key("shards", seed, epoch), len(counts))
        starts = offsets_of(counts[shards])
        return cls(shards, np.append(starts[:-1:pool], starts[-1]))


@dataclass(frozen=True)
class Pool:
    """Sequences of several sources in an order of their own: those of the shards that are shuffled together."""

    sources: Sequence[InstanceSource]
    offsets: NDArray[np.int64]
    """Where each begins in the sequences of all, counted through, and the end."""
    order: NDArray[np.int64]
    """Those numbers, in the order in which they are asked for."""

    @cached_property
    def _joined(self) -> Joined:
        return joined(self.sources)

    def take(self, places: NDArray[np.int64], rule: MaskingRule | None = None) -> Instances:
        """The sequences at `places` in the order, with masks by `rule` if they are drawn."""
        numbers = self.order[places]
        which = np.searchsorted(self.offsets, numbers, side="right") - 1
        return self._joined(which, numbers - self.offsets[which], rule)


class BatchRamp:
    """Batches that grow in a line, from `start` sequences at step 0 to `full` at step `steps`, and then stay."""

    def __init__(self, start: int, full: int, steps: int) -> None:
        sizes = start + np.arange(steps, dtype=np.int64) * (full - start) // max(steps, 1)
        self._offsets, self._full = offsets_of(sizes), full

    def first(self, step: int) -> int:
        """Sequences before the batch of `step`."""
        ramp = len(self._offsets) - 1
        return int(self._offsets[min(step, ramp)]) + max(step - ramp, 0) * self._full


@dataclass
class Loader:
    """Global batches of `batch_size` sequences; `InputError` where an epoch has fewer."""

    open_epoch: OpenEpoch
    """Called for every pool of shards anew: a source should open its files when it is first asked for instances."""
    batch_size: int
    seed: int
    pool: int = 16
    """Shards whose sequences are shuffled together."""
    ramp: BatchRamp | None = None
    """Smaller batches at the beginning."""
    rule: Callable[[int], MaskingRule] | None = None
    """Step -> the rule of the masks drawn in it; None = the one of the sources' config in all steps."""
    key: str = "pretrain.batch_size"
    """The key of params.yaml that holds `batch_size`, for errors."""

    def __post_init__(self) -> None:
        self._counts = np.array([len(source) for source in self.open_epoch(0)], np.int64)
        if self.batch_size > self.sequences_per_epoch:
            raise InputError(
                f"params.yaml: {self.key}: found {self.batch_size}, but an epoch has only "
                f"{self.sequences_per_epoch} sequences; lower it or give more text"
            )
        self._epoch = lru_cache(_KEPT)(partial(_Epoch.of, self._counts, self.pool, self.seed))
        self._pool = lru_cache(_KEPT)(self._opened)

    @property
    def sequences_per_epoch(self) -> int:
        return int(self._counts.sum())

    def _first(self, step: int) -> int:
        """Sequences before the global batch of `step`."""
        return step * self.batch_size if self.ramp is None else self.ramp.first(step)

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Instances:
        """The sequences of `rank` in the global batch of `step` (counted from 0). Threads may call it at once."""
        numbers = np.arange(self._first(step) + rank, self._first(step + 1), world_size)
        epochs, places = np.divmod(numbers, self.sequences_per_epoch)
        rule = self.rule(step) if self.rule else None
        parts: list[Instances] = []  # pools follow each other, so their parts do too
        for epoch in np.unique(epochs).tolist():
            bounds, own = self._epoch(epoch).bounds, places[epochs == epoch]
            pools = np.searchsorted(bounds, own, side="right") - 1
            for index in np.unique(pools).tolist():
                parts.append(self._pool(epoch, index).take(own[pools == index] - bounds[index], rule))
        return parts[0] if len(parts) == 1 else Instances.concatenate(parts)

    def _opened(self, epoch: int, index: int) -> Pool:
        shards = self._epoch(epoch).shards[index * self.pool : (index + 1) * self.pool]
        every = self.open_epoch(epoch)
        found = [len(every[shard]) for shard in shards.tolist()]
        assert found == self._counts[shards].tolist(), f"epoch {epoch}: {found} sequences, not those of epoch 0"
        offsets = offsets_of(self._counts[shards])
        order = draws.permutation(draws.key("order", self.seed, epoch, index), int(offsets[-1]))
        return Pool([every[shard] for shard in shards.tolist()], offsets, order)


@dataclass
class Phases:
    """Loaders one after the other: each from its own first step on, counted from 0 in its own batches."""

    loaders: Sequence[tuple[int, Loader]]
    """(first step, loader), ascending from step 0."""

    def at(self, step: int) -> tuple[Loader, int]:
        """The loader in whose phase `step` lies, and the step as it counts."""
        first, loader = next(phase for phase in reversed(self.loaders) if phase[0] <= step)
        return loader, step - first

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Instances:
        """As `Loader.batch`, from the loader in whose phase `step` lies."""
        loader, own = self.at(step)
        return loader.batch(own, rank, world_size)
