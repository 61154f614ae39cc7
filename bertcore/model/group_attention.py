"""How tokens of sequences of similar length attend to each other on the CPU: all pairs of them, a window, or in tiles.

Further shape letters: N sequences of a group, M = N * A rows of them and their heads, G tokens of the longest one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from bertcore.model.dropout import keep_scale
from bertcore.model.positions import Positions, far_pairs

_SHORTEST_BLOCK = 64
_BLOCKS = 4
"""Windows are computed by blocks in sequences of more than so many. At 256 tokens with 64 on either side that takes as
long as all pairs, at 384 two thirds, at 512 half, at 2,048 a fifteenth."""
_TILED_FROM = 2048
"""Tokens from which on tiles, which keep nothing of the pairs, take no longer than all pairs; at 512 they do by a
quarter."""

Kept = tuple[Tensor, Tensor | None]
"""What a backward pass needs beside queries, keys and values."""


@dataclass(frozen=True)
class Way:
    """Softmax(Q K' / sqrt(D)) V over what each token sees, and its gradient."""

    forward: Callable[[Tensor, Tensor, Tensor, Tensor, Positions, float], tuple[Tensor, Kept]]
    """(M, G, D) queries, keys and values, (N,) lengths, windows, dropout -> (M, G, D), and what is kept. Queries that
    are padding give anything but NaN."""
    backward: Callable[[Tensor, tuple[Tensor, Tensor, Tensor], Kept, Positions], list[Tensor]]
    """(M, G, D) gradient, zero at padding; queries, keys and values; what was kept -> their (M, G, D) gradients."""


def way_of(lengths: Tensor, longest: int, positions: Positions, dropout: float) -> Way:
    """The fastest way for sequences of (N,) lengths; of two that are as fast, the one that keeps less."""
    if positions.reach is not None and longest > _BLOCKS * _block(positions.reach):
        return WINDOWS
    if longest >= _TILED_FROM and not dropout and not positions.hides(longest) and bool((lengths == longest).all()):
        return TILES
    return PAIRS


def kept_of_a_query(longest: int, positions: Positions, dropout: float) -> int:
    """How many weights of each query and head a training keeps, in sequences of `longest` tokens."""
    way = way_of(torch.tensor([longest]), longest, positions, dropout)
    if way is WINDOWS:
        assert positions.reach is not None
        return 3 * _block(positions.reach)
    return 0 if way is TILES else longest


def _all_pairs(
    query: Tensor, key: Tensor, value: Tensor, lengths: Tensor, positions: Positions, dropout: float
) -> tuple[Tensor, Kept]:
    scores = torch.bmm(query, key.transpose(1, 2)).mul_(query.shape[-1] ** -0.5)
    hide(scores, lengths, positions)
    return weighted(scores, value, dropout)


def hide(scores: Tensor, lengths: Tensor, positions: Positions) -> None:
    """Lower the (M, G, G) scores of pairs that are none: keys behind a sequence's end, or that a query does not see."""
    by_sequence, longest = scores.view(len(lengths), -1, *scores.shape[1:]), scores.shape[1]
    if int(lengths.min()) < longest:
        by_sequence.masked_fill_((torch.arange(longest) >= lengths[:, None])[:, None, None], -torch.inf)
    if positions.hides(longest):
        # Not infinity: behind a sequence's end, some queries would see nothing.
        by_sequence.masked_fill_(far_pairs(longest, positions), torch.finfo(scores.dtype).min)


def weighted(scores: Tensor, value: Tensor, dropout: float) -> tuple[Tensor, Kept]:
    """(M, G, K) scores of G queries for K keys, (M, K, D) values -> (M, G, D), and what is kept."""
    weights = torch.softmax(scores, -1)
    scale = keep_scale(weights.shape, dropout, weights.dtype) if dropout else None
    return torch.bmm(weights if scale is None else weights * scale, value), (weights, scale)


def _back_from_pairs(outer: Tensor, parts: tuple[Tensor, Tensor, Tensor], kept: Kept, _: Positions) -> list[Tensor]:
    return _back_from_weights(outer, parts, kept)


def _back_from_weights(outer: Tensor, parts: tuple[Tensor, Tensor, Tensor], kept: Kept) -> list[Tensor]:
    """Of any rows of queries with the keys and values that they see."""
    query, key, value = parts
    inner, by_value = back_to_scores(outer, value, kept)
    inner.mul_(query.shape[-1] ** -0.5)
    return [torch.bmm(inner, key), torch.bmm(inner.transpose(1, 2), query), by_value]


def back_to_scores(outer: Tensor, value: Tensor, kept: Kept) -> tuple[Tensor, Tensor]:
    """The gradients of the scores and of the values that `weighted` was given, from that of its result."""
    weights, scale = kept
    dropped = weights if scale is None else weights * scale
    inner = torch.bmm(outer, value.transpose(1, 2))
    inner = torch._softmax_backward_data(inner if scale is None else inner.mul_(scale), weights, -1, inner.dtype)
    return inner, torch.bmm(dropped.transpose(1, 2), outer)


def _block(reach: int) -> int:
    """Tokens of a block, so that a window lies in its query's block and the two beside it."""
    return max(reach, _SHORTEST_BLOCK)


def _in_windows(
    query: Tensor, key: Tensor, value: Tensor, lengths: Tensor, positions: Positions, dropout: float
) -> tuple[Tensor, Kept]:
    assert positions.reach is not None
    longest, size = query.shape[1], _block(positions.reach)
    scores = torch.bmm(_blocks(query, size), _neighbours(key, size).transpose(1, 2)).mul_(query.shape[-1] ** -0.5)
    own, seen = torch.arange(size)[:, None], torch.arange(3 * size) - size  # places in a block, and around it
    first = torch.arange(0, longest, size)[:, None]
    absent = (first + seen < 0) | (first + seen >= lengths[:, None, None])  # (N, blocks, 3 * size)
    hidden = positions.far(seen - own) | absent[:, :, None, :]
    # Not infinity: beyond a sequence's end, some queries see nothing.
    scores.view(len(lengths), -1, *hidden.shape[1:]).masked_fill_(hidden[:, None], torch.finfo(scores.dtype).min)
    context, kept = weighted(scores, _neighbours(value, size), dropout)
    return _joined(context, longest, size), kept


def _back_from_windows(
    outer: Tensor, parts: tuple[Tensor, Tensor, Tensor], kept: Kept, positions: Positions
) -> list[Tensor]:
    assert positions.reach is not None
    longest, size = outer.shape[1], _block(positions.reach)
    query, key, value = parts
    rows = _blocks(query, size), _neighbours(key, size), _neighbours(value, size)
    by_query, by_key, by_value = _back_from_weights(_blocks(outer, size), rows, kept)
    return [_joined(by_query, longest, size), *(_gathered(each, longest, size) for each in (by_key, by_value))]


def _blocks(values: Tensor, size: int) -> Tensor:
    """(M, G, D) -> (M * blocks, size, D), filled up with zeros."""
    return functional.pad(values, (0, 0, 0, -values.shape[1] % size)).reshape(-1, size, values.shape[2])


def _joined(blocks: Tensor, longest: int, size: int) -> Tensor:
    """What `_blocks` took apart."""
    count = -(-longest // size)
    return blocks.view(-1, count * size, blocks.shape[2])[:, :longest]


def _neighbours(values: Tensor, size: int) -> Tensor:
    """(M, G, D) -> (M * blocks, 3 * size, D): each block with the one before and the one behind it."""
    rows, longest, width = values.shape
    count = -(-longest // size)
    padded = functional.pad(values, (0, 0, size, (count + 1) * size - longest)).contiguous()
    strides = (padded.stride(0), size * width, width, 1)
    return padded.as_strided((rows, count, 3 * size, width), strides).reshape(-1, 3 * size, width)


def _gathered(neighbours: Tensor, longest: int, size: int) -> Tensor:
    """The gradient of what `_neighbours` has copied: (M * blocks, 3 * size, D) -> (M, G, D)."""
    count, width = -(-longest // size), neighbours.shape[2]
    before, own, behind = neighbours.view(-1, count, 3, size, width).unbind(2)  # each (M, blocks, size, D)
    result = own.clone()
    result[:, :-1] += before[:, 1:]
    result[:, 1:] += behind[:, :-1]
    return result.view(-1, count * size, width)[:, :longest]


def _in_tiles(
    query: Tensor, key: Tensor, value: Tensor, lengths: Tensor, positions: Positions, dropout: float
) -> tuple[Tensor, Kept]:
    """Flash Attention (Dao et al. 2022), by torch's kernel for the CPU."""
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    context, sums = flash(query[None], key[None], value[None], 0.0, False)
    return context[0], (context, sums)


def _back_from_tiles(outer: Tensor, parts: tuple[Tensor, Tensor, Tensor], kept: Kept, _: Positions) -> list[Tensor]:
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return [each[0] for each in flash(outer[None], *(part[None] for part in parts), *kept, 0.0, False)]


PAIRS = Way(_all_pairs, _back_from_pairs)
WINDOWS = Way(_in_windows, _back_from_windows)
TILES = Way(_in_tiles, _back_from_tiles)
