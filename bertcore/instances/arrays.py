"""Masked sequences as flat arrays: what the mask stage writes and the loader hands to the training."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertcore.files import replace_file
from bertcore.ragged import offsets_of, ranges
from bertcore.shards.store import read_batch, write_batch


@dataclass(frozen=True)
class Instances:
    """N masked sequences of T tokens in all, laid end to end without padding."""

    tokens: NDArray[Any]
    """(T,) input ids, predicted tokens already replaced."""
    offsets: NDArray[np.int64]
    """(N + 1,) where each sequence begins in `tokens`."""
    segment_a_lengths: NDArray[np.int32]
    """(N,) tokens of type 0: [CLS], segment A and its [SEP]; of a sequence without segments A and B, all."""
    next_sentence_labels: NDArray[np.int8] | None
    """(N,) 0 = B follows A, 1 = B is random, or the two are swapped; None where there are no segments A and B."""
    masked_positions: NDArray[np.int64]
    """(M,) flat indices into `tokens`, ascending."""
    masked_labels: NDArray[Any]
    """(M,) the ids to predict there."""
    masked_offsets: NDArray[np.int64]
    """(N + 1,) where each sequence's predictions begin in `masked_positions`."""

    def __len__(self) -> int:
        return len(self.segment_a_lengths)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def take(self, rows: NDArray[np.int64]) -> Self:
        """The sequences `rows`, in that order."""
        lengths, counts = self.lengths[rows], np.diff(self.masked_offsets)[rows]
        offsets, masked_offsets = offsets_of(lengths), offsets_of(counts)
        token_index = ranges(self.offsets[rows], lengths)
        masked_index = ranges(self.masked_offsets[rows], counts)
        return type(self)(
            tokens=self.tokens[token_index],
            offsets=offsets,
            segment_a_lengths=self.segment_a_lengths[rows],
            next_sentence_labels=None if self.next_sentence_labels is None else self.next_sentence_labels[rows],
            masked_positions=self.masked_positions[masked_index] + np.repeat(offsets[:-1] - self.offsets[rows], counts),
            masked_labels=self.masked_labels[masked_index],
            masked_offsets=masked_offsets,
        )

    @classmethod
    def concatenate(cls, parts: list[Self]) -> Self:
        """All sequences of `parts`, one after the other."""
        starts = np.cumsum([0] + [len(part.tokens) for part in parts])
        labels = [part.next_sentence_labels for part in parts if part.next_sentence_labels is not None]
        return cls(
            tokens=np.concatenate([part.tokens for part in parts]),
            offsets=offsets_of(np.concatenate([part.lengths for part in parts])),
            segment_a_lengths=np.concatenate([part.segment_a_lengths for part in parts]),
            next_sentence_labels=np.concatenate(labels) if labels else None,
            masked_positions=np.concatenate(
                [part.masked_positions + start for part, start in zip(parts, starts[:-1], strict=True)]
            ),
            masked_labels=np.concatenate([part.masked_labels for part in parts]),
            masked_offsets=offsets_of(np.concatenate([np.diff(part.masked_offsets) for part in parts])),
        )

    def write(self, path: Path) -> None:
        """One Arrow record batch, a row a sequence; positions count from the row's own [CLS]."""
        local = self.masked_positions - np.repeat(self.offsets[:-1], np.diff(self.masked_offsets))
        columns = {
            "input_ids": _lists(self.offsets, self.tokens),
            "segment_a_length": pa.array(self.segment_a_lengths),
            "masked_lm_positions": _lists(self.masked_offsets, local.astype(np.uint16)),
            "masked_lm_ids": _lists(self.masked_offsets, self.masked_labels),
        }
        if self.next_sentence_labels is not None:
            columns["next_sentence_label"] = pa.array(self.next_sentence_labels)
        with replace_file(path) as beside:  # a worker that was given up may write it, too
            write_batch(beside, pa.record_batch(list(columns.values()), names=list(columns)))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Map what `write` wrote."""
        batch = read_batch(path, "mask")
        ids, positions = batch.column("input_ids"), batch.column("masked_lm_positions")
        paired = "next_sentence_label" in batch.schema.names
        offsets, masked_offsets = (column.offsets.to_numpy().astype(np.int64) for column in (ids, positions))
        return cls(
            tokens=ids.values.to_numpy(),
            offsets=offsets,
            segment_a_lengths=batch.column("segment_a_length").to_numpy(),
            next_sentence_labels=batch.column("next_sentence_label").to_numpy() if paired else None,
            masked_positions=positions.values.to_numpy().astype(np.int64)
            + np.repeat(offsets[:-1], np.diff(masked_offsets)),
            masked_labels=batch.column("masked_lm_ids").values.to_numpy(),
            masked_offsets=masked_offsets,
        )


def _lists(offsets: NDArray[np.int64], values: NDArray[Any]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))
