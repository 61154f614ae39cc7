"""Pre-training instances of a shard in an epoch: drawn when asked for, or read from static copies.

A static copy is the drawing function's output written down: for the same seed and epoch both give the same instances.

Every epoch shows as many sequences of a shard as the first: the mask stage writes that number down, so that the order
of the training is known without drawing any epoch. Pairs are drawn anew in every epoch, and their number varies by a
few in a thousand. Where an epoch draws more, it leaves a random run of them out; where it draws fewer, it repeats one,
with other masks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bertcore import draws
from bertcore.instances.arrays import Instances
from bertcore.instances.config import MaskConfig, MaskingRule
from bertcore.instances.masking import mask
from bertcore.instances.packed import Packed, lay_out
from bertcore.instances.packing import PACKINGS
from bertcore.ragged import offsets_of
from bertcore.shards.store import TokenShard
from bertcore.tokens.tokenizer import Vocabulary

_BLOCK = 1024
"""Sequences drawn at a time: their arrays stay in the cache, which makes them twice as fast as 65,536."""


class InstanceSource(Protocol):
    """The instances of one shard in one epoch, by row."""

    def __len__(self) -> int: ...

    def take(self, rows: NDArray[np.int64]) -> Instances: ...


@dataclass(frozen=True)
class StaticInstances:
    """A static copy, mapped when first asked for."""

    path: Path
    count: int

    def __len__(self) -> int:
        return self.count

    @cached_property
    def instances(self) -> Instances:
        """All of them."""
        return Instances.read(self.path)

    def take(self, rows: NDArray[np.int64]) -> Instances:
        return self.instances.take(rows)


@dataclass(frozen=True)
class DrawnInstances:
    """Instances drawn from a token shard when asked for: a function of (seed, epoch, shard name, row)."""

    open_shard: Callable[[], TokenShard]
    name: str
    epoch: int
    config: MaskConfig
    vocabulary: Vocabulary
    count: int | None
    """Sequences of every epoch; None = as many as this one draws."""

    @classmethod
    def of(
        cls,
        shard: TokenShard,
        name: str,
        epoch: int,
        config: MaskConfig,
        vocabulary: Vocabulary,
        count: int | None = None,
    ) -> Self:
        """From a shard that is open already."""
        return cls(lambda: shard, name, epoch, config, vocabulary, count)

    @cached_property
    def shard(self) -> TokenShard:
        return self.open_shard()

    @cached_property
    def packed(self) -> Packed:
        """All sequences of the epoch, unmasked; where a shard of few sentences gives none in it, those of epoch 0."""
        drawn = self._pack(self.epoch)
        return drawn if len(drawn) or not self.count else self._pack(0)

    def _pack(self, epoch: int) -> Packed:
        return PACKINGS[self.config.packing](self.shard, self.config, self.vocabulary, self._key(epoch))

    def _key(self, epoch: int) -> tuple[int | str, ...]:
        return (self.config.seed, self.config.sequence_length, epoch, self.name)

    def __len__(self) -> int:
        return len(self.packed) if self.count is None else self.count

    @cached_property
    def mask_key(self) -> int:
        """Decides, with its row, the masks of each instance."""
        return draws.key("mask", *self._key(self.epoch))

    def rows_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which of the sequences in `packed` the instances `rows` show."""
        return (rows + self.first_row) % len(self.packed)

    @cached_property
    def first_row(self) -> int:
        """Which of the sequences in `packed` the first instance shows."""
        drawn = len(self.packed)
        if len(self) == drawn:
            return 0
        return int(draws.fraction_of(draws.key(*self._key(self.epoch)), "first row") * drawn)

    @property
    def free(self) -> NDArray[np.bool_] | None:
        """(N,) whether each row's label was drawn with probability 0.5; None without labels."""
        return None if self.packed.free is None else self.packed.free[self.rows_of(np.arange(len(self)))]

    def take(self, rows: NDArray[np.int64]) -> Instances:
        return _Drawing([self]).take(np.zeros_like(rows), rows)

    def blocks(self, size: int = _BLOCK) -> Iterator[Instances]:
        """Every row, `size` at a time; one empty block where there is none."""
        for start in range(0, max(len(self), 1), size):
            yield self.take(np.arange(start, min(start + size, len(self))))


class Joined(Protocol):
    """Several sources as one."""

    def __call__(self, which: NDArray[np.int64], rows: NDArray[np.int64], rule: MaskingRule | None = None) -> Instances:
        """Row `rows[i]` of source `which[i]` for every i, in that order; masks that are drawn follow `rule`, or by
        default the sources' config."""


def joined(sources: Sequence[InstanceSource]) -> Joined:
    """All `sources` as one."""
    drawn = [source for source in sources if isinstance(source, DrawnInstances)]
    return _Drawing(drawn).take if len(drawn) == len(sources) else partial(_gather, sources)


def _gather(
    sources: Sequence[InstanceSource],
    which: NDArray[np.int64],
    rows: NDArray[np.int64],
    rule: MaskingRule | None = None,  # noqa: ARG001  (static copies have their masks)
) -> Instances:
    grouped = np.argsort(which, kind="stable")
    touched, starts = np.unique(which[grouped], return_index=True)
    parts = zip(touched.tolist(), np.split(rows[grouped], starts[1:]), strict=True)
    instances = Instances.concatenate([sources[source].take(own) for source, own in parts])
    return instances.take(np.argsort(grouped))


class _Drawing:
    """Sources whose instances are drawn at once: a source at a time, a batch of many would take five times as long."""

    def __init__(self, sources: Sequence[DrawnInstances]):
        self._sources = sources
        self._packed = Packed.concatenate([source.packed for source in sources])
        self._drawn = np.array([len(source.packed) for source in sources])
        self._offsets = offsets_of(self._drawn)
        self._first_rows = np.array([source.first_row for source in sources])
        self._mask_keys = np.array([source.mask_key for source in sources], np.uint64)

    def take(self, which: NDArray[np.int64], rows: NDArray[np.int64], rule: MaskingRule | None = None) -> Instances:
        """As `Joined` says."""
        grouped = np.argsort(which, kind="stable")
        instances = self._take_grouped(which[grouped], rows[grouped], rule)
        return instances if len(self._sources) == 1 else instances.take(np.argsort(grouped))

    def _take_grouped(self, which: NDArray[np.int64], rows: NDArray[np.int64], rule: MaskingRule | None) -> Instances:
        """`which` is ascending, so that each text is read for neighbouring rows."""
        config, vocabulary = self._sources[0].config, self._sources[0].vocabulary
        shown = (rows + self._first_rows[which]) % self._drawn[which]
        packed = self._packed.take(self._offsets[which] + shown)
        bounds = np.searchsorted(which, np.arange(len(self._sources) + 1))
        laid_out = lay_out([source.shard.tokens for source in self._sources], bounds, packed, vocabulary)
        keys = draws.bits(self._mask_keys[which], rows.astype(np.uint64))
        masked = mask(laid_out.tokens, laid_out.offsets, keys, rule or config, vocabulary)
        return Instances(
            tokens=masked.tokens,
            offsets=laid_out.offsets,
            segment_a_lengths=laid_out.segment_a_lengths,
            next_sentence_labels=packed.labels,
            masked_positions=masked.positions,
            masked_labels=masked.labels,
            masked_offsets=offsets_of(masked.counts),
        )
