"""The global batch of a step, in the parts that are computed at once."""

from collections.abc import Generator, Iterator

import numpy as np

from bertcore.instances.sources import Instances
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.training.loader import Loader, Phases


def as_batch(instances: Instances) -> PreTrainingBatch:
    """The tensors of a micro-batch."""
    position = np.arange(len(instances.tokens)) - np.repeat(instances.offsets[:-1], instances.lengths)
    return PreTrainingBatch.from_numpy(
        input_ids=instances.tokens,
        token_type_ids=(position >= np.repeat(instances.segment_a_lengths, instances.lengths)).astype(np.int64),
        lengths=instances.lengths,
        masked_positions=instances.masked_positions,
        masked_labels=instances.masked_labels,
        next_sentence_labels=instances.next_sentence_labels,
    )


def split(instances: Instances, size: int) -> list[Instances]:
    """Consecutive parts of at most `size` sequences."""
    if size >= len(instances):
        return [instances]
    rows = np.arange(len(instances))
    return [instances.take(rows[start : start + size]) for start in range(0, len(rows), size)]


class Feed:
    """The global batches of one process, made in the background while steps come one after the other."""

    def __init__(self, loader: Loader | Phases, rank: int, world_size: int) -> None:
        self._loader, self._rank, self._world_size = loader, rank, world_size
        self._batches: Iterator[Instances] | None = None
        self._next = 0

    def of(self, step: int) -> Instances:
        """This process's part of the batch of `step`."""
        if self._batches is None or step != self._next:
            self.close()
            self._batches, self._next = self._loader.batches(step, self._rank, self._world_size), step
        self._next += 1
        return next(self._batches)

    def close(self) -> None:
        """End the work in the background."""
        if isinstance(self._batches, Generator):
            self._batches.close()
        self._batches = None
