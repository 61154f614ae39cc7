"""Texts of a task as token arrays, made once, long ones in overlapping windows; and the batches drawn from them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from bertcore.model.layout import Layout, moved
from bertcore.ragged import offsets_of, ranges

IGNORED = -100
"""A target that the loss leaves out, as in torch and Hugging Face."""

_CHUNK, _CHUNK_SIZE = 2048, 2_000_000
"""Texts tokenised at a time, at most, and their characters (words), unless one text has more; bounds the memory for the
library's objects."""

_LENGTH_WEIGHT = 0.01
"""What a token of a window's length counts beside a token of context; between two windows the same."""

Item = TypeVar("Item", bound=Sequence[Any])


@dataclass(frozen=True, kw_only=True)
class Batch:
    """B sequences, T tokens in all, end to end without padding."""

    input_ids: Tensor
    """(T,) int64."""
    token_type_ids: Tensor
    """(T,) int64: 0 in the first text, 1 in the second."""
    layout: Layout
    """Where each sequence begins and ends."""
    targets: Tensor | None
    """What the head should say, shaped as its family has it; None where the examples have no labels."""

    @property
    def count(self) -> int:
        """Targets that count in the loss."""
        assert self.targets is not None, "a batch without targets"
        return self.targets.numel() if self.targets.is_floating_point() else int((self.targets != IGNORED).sum())

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch with its tensors on `device`."""
        return moved(self, device, non_blocking=True)


@dataclass(frozen=True, kw_only=True)
class Features:
    """N sequences, T tokens in all."""

    tokens: NDArray[np.int32]
    """(T,) token ids."""
    token_types: NDArray[np.int8]
    """(T,) 0 in the first text, 1 in the second."""
    lengths: NDArray[np.int64]
    """(N,) tokens of each sequence."""
    targets: NDArray[Any] | None
    """(N, …), or (T,) where `per_token`; None where the examples have no labels."""
    per_token: bool = False
    """Whether a target belongs to a token and not to a sequence."""
    groups: NDArray[np.int64] | None = None
    """(G + 1,): the sequences groups[g] to groups[g + 1] are learned in one batch; None: each sequence by itself."""
    cut: NDArray[np.bool_] | None = None
    """(examples,) whether an end of the example's texts is in none of its sequences; None: not determined."""
    counts: dict[str, int] = field(default_factory=dict)
    """What the sequences do not show of the texts, by reason -> number of examples."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(N + 1,): sequence n is the tokens offsets[n] to offsets[n + 1]."""
        return offsets_of(self.lengths)

    @property
    def group_lengths(self) -> NDArray[np.int64]:
        """(G,) tokens of each group."""
        if self.groups is None:
            return self.lengths
        return np.diff(self.offsets[self.groups])

    def sequences(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sequences of `groups`, in that order."""
        if self.groups is None:
            return groups
        starts = self.groups[groups]
        return ranges(starts, self.groups[groups + 1] - starts)

    def token_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of all tokens of the sequences `rows`, in that order."""
        return ranges(self.offsets[rows], self.lengths[rows])

    def places(self, rows: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Where the sequences `rows` stand in an array with a row for each token, or one for each sequence: it has
        `size` rows."""
        return self.token_rows(rows) if size == len(self.tokens) else rows

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """The sequences `rows`, in that order; at least one."""
        places = self.token_rows(rows)
        targets = None if self.targets is None else self.targets[places if self.per_token else rows]
        return Batch(
            input_ids=torch.from_numpy(self.tokens[places].astype(np.int64)),
            token_type_ids=torch.from_numpy(self.token_types[places].astype(np.int64)),
            layout=Layout.from_lengths(torch.from_numpy(self.lengths[rows])),
            targets=None if targets is None else torch.from_numpy(targets),
        )


def concatenated(arrays: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    """All of `arrays` (which may be none) end to end, as one array of `dtype`."""
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.zeros(0, dtype=dtype)


def chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Consecutive parts of a size that the tokenizer is given at once; an item is a text, several, or words."""
    start = size = 0
    for place, item in enumerate(items):
        own = len(item) if isinstance(item, str) else sum(map(len, item))
        if place > start and (place - start == _CHUNK or size + own > _CHUNK_SIZE):
            yield items[start:place]
            start, size = place, 0
        size += own
    if start < len(items):
        yield items[start:]


def own_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """A copy, so that the truncation set on it is nobody else's."""
    return Tokenizer.from_str(tokenizer.to_str())


def windows(sizes: NDArray[np.int64], capacity: int, stride: int) -> NDArray[np.int64]:
    """Overlapping windows over units (words or tokens) of `sizes` tokens, each window at most `capacity` tokens, as
    google-research/bert has them (run_squad.py): (W, 2) first unit and end.

    A window takes as many units as fit. The next one begins at the first unit that lies `stride` tokens behind the
    beginning of the last, but never leaves a unit out between them. The last window ends with the last unit.
    """
    ends = np.cumsum(sizes)
    starts = ends - sizes
    found: list[tuple[int, int]] = []
    first = 0
    while first < len(sizes):
        end = int(np.searchsorted(ends, starts[first] + capacity, side="right"))
        found.append((first, end))
        if end == len(sizes):
            break
        # Far enough to show at least the unit `end`, which did not fit.
        least = max(starts[first] + stride, ends[end] - capacity)
        first = min(int(np.searchsorted(starts, least, side="left")), end)
    return np.asarray(found, dtype=np.int64).reshape(-1, 2)


def token_windows(length: int, capacity: int, stride: int) -> NDArray[np.int64]:
    """`windows` over single tokens, of which a text without any has an empty one: it is a sequence, too."""
    return windows(np.ones(length, dtype=np.int64), capacity, stride) if length else np.zeros((1, 2), dtype=np.int64)


def best_windows(spans: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each token of `places` (P,), ascending, the window that has most context around it; `spans` (W, 2): first
    token and end.

    Context is the smaller of the numbers of tokens before and behind it in the window, plus a little for the window's
    length; of equal windows the first. Every token must lie in a window.
    """
    found, most = np.full(len(places), -1), np.full(len(places), -np.inf)
    for window, (first, end) in enumerate(spans):
        inside = slice(*np.searchsorted(places, (first, end)))
        here = places[inside]
        context = np.minimum(here - first, end - 1 - here) + _LENGTH_WEIGHT * (end - first)
        better = context > most[inside]
        found[inside], most[inside] = np.where(better, window, found[inside]), np.where(better, context, most[inside])
    assert (found >= 0).all(), "a token outside of all windows"
    return found
