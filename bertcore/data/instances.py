"""Pre-training instances: pairs laid out as [CLS] A [SEP] B [SEP], masked; drawn on the fly or read from static copies.

A static copy is the drawing function's output written down: for the same seed and epoch both give the same instances.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertcore.data import draws
from bertcore.data.masking import MaskingRule, mask
from bertcore.data.pairing import Pairs, draw_pairs
from bertcore.data.shards import Manifest, TokenShard, Vocabulary, read_batch, write_batch


@dataclass(frozen=True, kw_only=True)
class SecondPhase:
    """`mask.second_phase`: the same text once more as longer sequences, for the last part of the training."""

    sequence_length: int = 512
    """Tokens of a sequence at most, [CLS] and both [SEP] included."""
    max_predictions_per_seq: int = 80
    """Predicted tokens of one sequence at most."""


@dataclass(frozen=True, kw_only=True)
class MaskConfig:
    """Section `mask` of params.yaml: how token shards become pre-training instances."""

    sequence_length: int = 128
    """Tokens of a sequence at most, [CLS] and both [SEP] included."""
    duplicates: int = 1
    """Static masked copies of the corpus, one an epoch, then again from the first; 0 draws anew in every epoch."""
    masked_lm_prob: float = 0.15
    """Share of the tokens that are predicted."""
    max_predictions_per_seq: int = 20
    """Predicted tokens of one sequence at most."""
    short_seq_prob: float = 0.1
    """Share of the documents whose pairs are made shorter than `sequence_length`."""
    second_phase: SecondPhase | None = None
    """Longer sequences for the end of the training (`pretrain.second_phase`); None = one length throughout."""
    seed: int = 1
    """Of the pairs and of the masks."""

    def __post_init__(self) -> None:
        if not 8 <= self.sequence_length < 2**16:
            raise ValueError(f"sequence_length: found {self.sequence_length}, expected between 8 and 65535 tokens")
        if self.duplicates < 0:
            raise ValueError(f"duplicates: found {self.duplicates}, expected 0 (drawn while training) or more")
        if not 0 < self.masked_lm_prob < 1:
            raise ValueError(f"masked_lm_prob: found {self.masked_lm_prob}, expected a share between 0 and 1")
        if self.max_predictions_per_seq < 1:
            raise ValueError(f"max_predictions_per_seq: found {self.max_predictions_per_seq}, expected at least 1")
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob: found {self.short_seq_prob}, expected a probability")
        if self.second_phase and self.second_phase.sequence_length <= self.sequence_length:
            raise ValueError(
                f"second_phase.sequence_length: found {self.second_phase.sequence_length}, expected more than that of "
                f"the first phase ({self.sequence_length}); raise it or remove second_phase"
            )

    @property
    def phases(self) -> list["MaskConfig"]:
        """One config for each length, in the order of training."""
        first = replace(self, second_phase=None)
        if self.second_phase is None:
            return [first]
        second = self.second_phase
        return [
            first,
            replace(
                first,
                sequence_length=second.sequence_length,
                max_predictions_per_seq=second.max_predictions_per_seq,
            ),
        ]

    @property
    def rule(self) -> MaskingRule:
        return MaskingRule(masked_lm_prob=self.masked_lm_prob, max_predictions_per_seq=self.max_predictions_per_seq)


@dataclass(frozen=True)
class Instances:
    """N masked sequences of T tokens in all, laid end to end without padding."""

    tokens: NDArray[Any]
    """(T,) input ids, predicted tokens already replaced."""
    offsets: NDArray[np.int64]
    """(N + 1,) where each sequence begins in `tokens`."""
    segment_a_lengths: NDArray[np.int32]
    """(N,) tokens of type 0: [CLS], segment A and its [SEP]."""
    next_sentence_labels: NDArray[np.int8]
    """(N,) 0 = B follows A, 1 = B is random."""
    masked_positions: NDArray[np.int64]
    """(M,) flat indices into `tokens`, ascending."""
    masked_labels: NDArray[Any]
    """(M,) the ids to predict there."""
    masked_offsets: NDArray[np.int64]
    """(N + 1,) where each sequence's predictions begin in `masked_positions`."""

    def __len__(self) -> int:
        return len(self.next_sentence_labels)

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
            next_sentence_labels=self.next_sentence_labels[rows],
            masked_positions=self.masked_positions[masked_index] + np.repeat(offsets[:-1] - self.offsets[rows], counts),
            masked_labels=self.masked_labels[masked_index],
            masked_offsets=masked_offsets,
        )

    @classmethod
    def concatenate(cls, parts: list[Self]) -> Self:
        """All sequences of `parts`, one after the other."""
        starts = np.cumsum([0] + [len(part.tokens) for part in parts])
        return cls(
            tokens=np.concatenate([part.tokens for part in parts]),
            offsets=offsets_of(np.concatenate([part.lengths for part in parts])),
            segment_a_lengths=np.concatenate([part.segment_a_lengths for part in parts]),
            next_sentence_labels=np.concatenate([part.next_sentence_labels for part in parts]),
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
            "next_sentence_label": pa.array(self.next_sentence_labels),
            "masked_lm_positions": _lists(self.masked_offsets, local.astype(np.uint16)),
            "masked_lm_ids": _lists(self.masked_offsets, self.masked_labels),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_batch(path, pa.record_batch(list(columns.values()), names=list(columns)))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Map what `write` wrote."""
        batch = read_batch(path, "mask")
        ids, positions = batch.column("input_ids"), batch.column("masked_lm_positions")
        offsets, masked_offsets = (column.offsets.to_numpy().astype(np.int64) for column in (ids, positions))
        return cls(
            tokens=ids.values.to_numpy(),
            offsets=offsets,
            segment_a_lengths=batch.column("segment_a_length").to_numpy(),
            next_sentence_labels=batch.column("next_sentence_label").to_numpy(),
            masked_positions=positions.values.to_numpy().astype(np.int64)
            + np.repeat(offsets[:-1], np.diff(masked_offsets)),
            masked_labels=batch.column("masked_lm_ids").values.to_numpy(),
            masked_offsets=masked_offsets,
        )


class InstanceSource(Protocol):
    """The instances of one shard in one epoch, by row."""

    def __len__(self) -> int: ...

    def take(self, rows: NDArray[np.int64]) -> Instances: ...


@dataclass(frozen=True)
class DrawnInstances:
    """Instances drawn from a token shard when asked for: a function of (seed, epoch, shard name, row)."""

    shard: TokenShard
    pairs: Pairs
    mask_key: int
    rule: MaskingRule
    vocabulary: Vocabulary

    @classmethod
    def of(cls, shard: TokenShard, name: str, epoch: int, config: MaskConfig, vocabulary: Vocabulary) -> Self:
        coordinates = (config.seed, config.sequence_length, epoch, name)
        pairs = draw_pairs(shard, config.sequence_length, config.short_seq_prob, *coordinates)
        return cls(shard, pairs, draws.key("mask", *coordinates), config.rule, vocabulary)

    def __len__(self) -> int:
        return len(self.pairs)

    def take(self, rows: NDArray[np.int64]) -> Instances:
        tokens, offsets, segment_a_lengths = _lay_out(self.shard.tokens, self.pairs, rows, self.vocabulary)
        masked = mask(tokens, offsets, rows, self.mask_key, self.rule, self.vocabulary)
        return Instances(
            tokens=masked.tokens,
            offsets=offsets,
            segment_a_lengths=segment_a_lengths,
            next_sentence_labels=self.pairs.next_sentence_labels[rows],
            masked_positions=masked.positions,
            masked_labels=masked.labels,
            masked_offsets=offsets_of(masked.counts),
        )

    def all(self, block: int = 65536) -> Instances:
        """Every row, drawn in blocks so that the working memory stays small."""
        starts = range(0, len(self), block)
        return Instances.concatenate([self.take(np.arange(start, min(start + block, len(self)))) for start in starts])


def open_sources(
    instances: Path, shards: Path, config: MaskConfig, vocabulary: Vocabulary, split: str, epoch: int
) -> list[InstanceSource]:
    """The instances of every shard of `split` in `epoch`: static copies where the mask stage wrote them, else drawn.

    `config` is that of one phase.
    """
    entries = Manifest.read(shards).of_split(split)
    if split == "heldout" or config.duplicates:
        copy = 0 if split == "heldout" else epoch % config.duplicates
        return [Instances.read(static_path(instances, config, entry.name, copy)) for entry in entries]
    return [
        DrawnInstances.of(TokenShard.open(shards / entry.name), entry.name, epoch, config, vocabulary)
        for entry in entries
    ]


def static_path(instances: Path, config: MaskConfig, shard_name: str, epoch: int) -> Path:
    """Where the static copy of a shard's instances in an epoch lies, for the phase of `config`."""
    return instances / f"length-{config.sequence_length}" / f"{Path(shard_name).stem}-epoch{epoch:03d}.arrow"


def offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N + 1,) starts of ragged rows of `lengths` (N,), and their end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices start, start + 1, … of every ragged row, one after the other."""
    return np.repeat(starts - offsets_of(lengths)[:-1], lengths) + np.arange(lengths.sum())


def _lay_out(
    text: NDArray[Any], pairs: Pairs, rows: NDArray[np.int64], vocabulary: Vocabulary
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int32]]:
    a_start, b_start = pairs.a_start[rows], pairs.b_start[rows]
    length_a, length_b = pairs.a_end[rows] - a_start, pairs.b_end[rows] - b_start
    offsets = offsets_of(length_a + length_b + 3)
    tokens = np.empty(offsets[-1], text.dtype)
    starts = offsets[:-1]
    tokens[starts] = vocabulary.cls
    tokens[starts + length_a + 1] = vocabulary.sep
    tokens[offsets[1:] - 1] = vocabulary.sep
    tokens[ranges(starts + 1, length_a)] = text[ranges(a_start, length_a)]
    tokens[ranges(starts + length_a + 2, length_b)] = text[ranges(b_start, length_b)]
    return tokens, offsets, (length_a + 2).astype(np.int32)


def _lists(offsets: NDArray[np.int64], values: NDArray[Any]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))
