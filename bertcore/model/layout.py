"""Where the sequences of a batch lie when they are concatenated, without padding, into one row of tokens.

Shape letters used throughout `bertcore.model`: B sequences, T tokens in all of them together, L tokens in the longest,
H hidden size, A heads, D head size, V vocabulary, M masked positions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional


def rounded_up(number: int) -> int:
    """`number` rounded up to a multiple of 8, from 512 on of a 64th of it, so that few different ones remain.

    On the CPU a matrix product's code is generated for its shape, and kept for a thousand shapes: another number of
    rows in every step would cost a twentieth of a step of mini, and a gigabyte of memory.
    """
    unit = 2 ** max(3, number.bit_length() - 7)
    return -(-number // unit) * unit


def rounded(values: Tensor) -> Tensor:
    """(R,) with zeros behind them, so that their number is `rounded_up`."""
    return functional.pad(values, (0, rounded_up(len(values)) - len(values)))


def filled(rows: Tensor) -> Tensor:
    """(R, H) with rows of zeros behind them, so that their number is `rounded_up`, on the CPU."""
    filling = rounded_up(len(rows)) - len(rows)
    return functional.pad(rows, (0, 0, 0, filling)) if filling and rows.device.type == "cpu" else rows


def by_rounded_rows(compute: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """`compute(rows)`, which treats each of the (R, H) by itself, of a `rounded_up` number of them on the CPU."""
    return compute(filled(rows))[: len(rows)]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some sequences of a layout, of similar length, as an array (N, G) of token places, padded to the longest."""

    index: Tensor
    """(N * G,) int64: flat token index of every place; padding repeats the sequence's first token."""
    real: Tensor | None
    """(R,) int64: the places that are no padding; None where there is none."""
    lengths: Tensor
    """(N,) int64."""
    longest: int
    """G, tokens."""
    causal: bool
    """Whether a token sees none of those behind it."""

    @property
    def key_mask(self) -> Tensor | None:
        """(N, 1, 1, G) bool: True where a key is no padding; None where all are real."""
        if self.real is None:
            return None
        return (torch.arange(self.longest) < self.lengths[:, None])[:, None, None, :]


GROUP_AREA = 8 * 128**2
"""Pairs of tokens that one head compares at once in a group, so that a group's arrays stay in the cache."""


def _group(firsts: Tensor, lengths: Tensor, longest: int, causal: bool) -> Group:
    place = torch.arange(longest)
    inside = place < lengths[:, None]
    index = (firsts[:, None] + torch.where(inside, place, 0)).flatten()
    real = None if bool(inside.all()) else inside.flatten().nonzero().squeeze(1)
    return Group(index=index, real=real, lengths=lengths, longest=longest, causal=causal)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """B sequences laid end to end, T tokens. Attention never crosses from one sequence to another."""

    lengths: Tensor
    """(B,) int64: tokens of each sequence, all at least 1."""
    cumulative: Tensor
    """(B + 1,) int32: sequence b is the tokens cumulative[b] to cumulative[b + 1]."""
    position_ids: Tensor
    """(T,) int64: place of each token in its own sequence, from 0."""
    padded_index: Tensor
    """(T,) int64: place of each token in the flattened padded array (B * L,)."""
    max_length: int
    """L, tokens of the longest sequence."""
    causal: int = 0
    """The last so many sequences are read from left to right: their tokens see none of those behind them."""
    causal_tokens: int = 0
    """Tokens of these."""

    @classmethod
    def from_lengths(cls, lengths: Tensor, causal: int = 0) -> "Layout":
        """The layout for `lengths`, a (B,) integer tensor on the CPU; B and every length must be at least 1."""
        lengths = lengths.to(torch.int64)
        assert lengths.ndim == 1 and lengths.numel() > 0 and int(lengths.min()) > 0, f"lengths of sequences: {lengths}"
        ends = lengths.cumsum(0)
        max_length = int(lengths.max())
        sequence = torch.repeat_interleave(torch.arange(lengths.numel()), lengths)
        position_ids = torch.arange(int(ends[-1])) - (ends - lengths)[sequence]
        return cls(
            lengths=lengths,
            cumulative=torch.cat([ends.new_zeros(1), ends]).to(torch.int32),
            position_ids=position_ids,
            padded_index=sequence * max_length + position_ids,
            max_length=max_length,
            causal=causal,
            causal_tokens=int(lengths[len(lengths) - causal :].sum()),
        )

    @property
    def batch_size(self) -> int:
        """B."""
        return self.lengths.shape[0]

    @property
    def total(self) -> int:
        """T."""
        return self.position_ids.shape[0]

    @property
    def sequences(self) -> Tensor:
        """(T,) int64: the sequence of each token."""
        return self.padded_index // self.max_length

    def summed(self, values: Tensor) -> Tensor:
        """(T, H) -> (B, H): the sum over the tokens of each sequence."""
        return values.new_zeros(self.batch_size, values.shape[1]).index_add(0, self.sequences, values)

    def mean(self, values: Tensor) -> Tensor:
        """(T, H) -> (B, H): the mean over the tokens of each sequence, [CLS] and [SEP] among them."""
        return self.summed(values) / self.lengths[:, None]

    def padded(self, values: Tensor, filling: float = 0.0) -> Tensor:
        """(T, ...) -> (B, L, ...): each sequence in a row of its own, `filling` behind its end."""
        empty = values.new_full((self.batch_size * self.max_length, *values.shape[1:]), filling)
        return empty.index_copy(0, self.padded_index, values).unflatten(0, (self.batch_size, self.max_length))

    @property
    def is_full(self) -> bool:
        """All sequences have the same length, so that (T, …) is a view of (B, L, …)."""
        return self.total == self.batch_size * self.max_length

    @property
    def is_one_block(self) -> bool:
        """All sequences are one group of `groups`, and lie in it as they lie here."""
        one_way = not 0 < self.causal < self.batch_size
        return one_way and self.is_full and (self.batch_size == 1 or self.batch_size * self.max_length**2 <= GROUP_AREA)

    @property
    def first_tokens(self) -> Tensor:
        """(B,) int64: flat index of each sequence's first token, [CLS]."""
        return self.cumulative[:-1].to(torch.int64)

    def key_mask(self) -> Tensor:
        """(B, L) bool: True where the padded array holds a token."""
        return torch.arange(self.max_length, device=self.lengths.device) < self.lengths[:, None]

    @cached_property
    def groups(self) -> list[Group]:
        """All sequences in groups of similar length, the longest first, for what has to be padded on the CPU."""
        split = self.batch_size - self.causal
        return [*self._grouped(0, split, causal=False), *self._grouped(split, self.batch_size, causal=True)]

    def _grouped(self, begin: int, end: int, *, causal: bool) -> Iterator[Group]:
        order = begin + torch.argsort(self.lengths[begin:end], descending=True, stable=True)
        firsts, start = self.first_tokens, 0
        while start < len(order):
            longest = int(self.lengths[order[start]])
            rows = order[start : start + max(1, GROUP_AREA // longest**2)]
            yield _group(firsts[rows], self.lengths[rows], longest, causal)
            start += len(rows)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Layout":
        """The same layout with its tensors on `device`."""
        return moved(self, device, non_blocking)


Batch = TypeVar("Batch", bound=Any)


def moved(batch: Batch, device: torch.device | str, non_blocking: bool = False) -> Batch:
    """A dataclass with all of its tensors, and those of its layout, on `device`."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    parts = {name: value for name, value in values.items() if isinstance(value, Tensor | Layout)}
    return replace(batch, **{name: value.to(device, non_blocking=non_blocking) for name, value in parts.items()})
