"""How much of the held-out text stands in the training text, too: sentence by sentence, on all cores."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertcore import workers
from bertcore.corpus.documents import RowGroup, corpus_shards, row_groups, training_parts

MOST_SENTENCES, MOST_BYTES = 1_000_000, 200_000_000
"""Held-out sentences that are looked for, the first ones, and the bytes after which no further block of them is: some
100 MB of most texts, which every worker holds."""


@dataclass(frozen=True)
class _Part:
    """Some blocks of the training text, and all of the held-out one, with absolute paths."""

    train: tuple[RowGroup, ...]
    heldout: tuple[RowGroup, ...]


def shared_sentences(corpus: Path, count: int | None = None) -> float:
    """Which share of the held-out sentences of `corpus`, of the first `MOST_SENTENCES` at most, stands in its training
    text, letter for letter. `count`: worker processes, see `workers.run`."""
    shared = reduce(np.logical_or, workers.run(_find, _parts(corpus), count))
    return int(shared.sum()) / max(len(shared), 1)


def _parts(corpus: Path) -> Iterator[_Part]:
    heldout = tuple(row_groups(corpus_shards(corpus, "heldout")))
    for train in training_parts(corpus):
        yield _Part(train, heldout)


def _find(part: _Part) -> NDArray[np.bool_]:
    """(S,) which held-out sentences stand in the part's blocks."""
    heldout = _first_sentences(part.heldout)
    found = np.zeros(len(heldout), bool)
    for group in part.train:
        found |= pc.is_in(heldout, value_set=group.read().flatten().unique()).to_numpy(zero_copy_only=False)
    return found


def _first_sentences(groups: tuple[RowGroup, ...]) -> pa.Array:
    parts, room, size = [], MOST_SENTENCES, 0
    for group in groups:
        parts.append(group.read().flatten()[:room])
        room, size = room - len(parts[-1]), size + parts[-1].nbytes
        if not room or size > MOST_BYTES:
            break
    return pa.concat_arrays(parts)
