"""Where the sequences of a step come from: shard, row and documents."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.instances.sources import DrawnInstances, Instances
from bertcore.training.loader import Loader, Phases


def rows_of(batches: Loader | Phases, step: int) -> list[dict[str, Any]]:
    """For each shard in the global batch of `step`: its name, the epoch, the rows and the documents they show.

    `batches` gives sequences that are drawn; a static copy has the same rows.
    """
    loader = batches
    if isinstance(batches, Phases):
        first, loader = next(phase for phase in reversed(batches.loaders) if phase[0] <= step)
        step -= first
    assert isinstance(loader, Loader)
    seen: list[dict[str, Any]] = []
    open_epoch = loader.open_epoch
    traced = replace(loader, open_epoch=lambda epoch: [_Traced(source, seen) for source in open_epoch(epoch)])
    traced.batch(step)
    return seen


@dataclass
class _Traced:
    """A source that writes down what is taken of it."""

    source: Any
    seen: list[dict[str, Any]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: NDArray[np.int64]) -> Instances:
        source: DrawnInstances = self.source
        entry = {"shard": source.name, "epoch": source.epoch, "rows": rows.tolist()}
        self.seen.append({**entry, "documents": _documents(source, rows)})
        return source.take(rows)


def _documents(source: DrawnInstances, rows: NDArray[np.int64]) -> list[Sequence[int]]:
    """The documents, counted from 0 in the shard, of which each row has text."""
    packed, shard = source.packed, source.shard
    begins = shard.sentence_offsets[shard.document_offsets]
    which = source.rows_of(rows)
    segments = [packed.starts[packed.row_offsets[row] : packed.row_offsets[row + 1]] for row in which.tolist()]
    return [np.unique(np.searchsorted(begins, starts, side="right") - 1).tolist() for starts in segments]
