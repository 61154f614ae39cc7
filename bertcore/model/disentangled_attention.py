"""Disentangled self-attention (He et al. 2021, section 3.1): scores of content and of distance, added.

Beside what a query says of a key, it says something of the key's distance, and the key of the query's. Distances have
keys and queries of their own, made by the same matrices from one table of embeddings for all layers. In that table near
distances have a row each, and farther ones share rows, the more of them the farther they are.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.model.attention import SelfAttention, gather, gathered_gradient, scatter, seen_by, seen_pairs, selected
from bertcore.model.dropout import dropout
from bertcore.model.group_attention import back_to_scores, hide, weighted
from bertcore.model.layout import Group, Layout
from bertcore.model.normalization import LayerNorm
from bertcore.model.positions import PLAIN

_TERMS = 3
"""Products that a score is the sum of."""


class Distances(nn.Module):
    """The embeddings of distances from a key to a query, normalised: those of all layers of an encoder."""

    def __init__(self, hidden_size: int, buckets: int, farthest: int, eps: float) -> None:
        """Of `buckets` on either side half have one distance each, the others all up to `farthest`."""
        super().__init__()
        self.rel_embeddings = nn.Embedding(2 * buckets, hidden_size)
        self.LayerNorm = LayerNorm(hidden_size, eps=eps)
        self._buckets, self._farthest = buckets, farthest

    def forward(self, longest: int) -> tuple[Tensor, Tensor]:
        """(R, H) rows of the table, and (2L + 1,) which of them stands for each distance from -L to L."""
        device = self.rel_embeddings.weight.device
        if torch.compiler.is_compiling():
            return self.LayerNorm(self.rel_embeddings.weight), rows_of(longest, self._buckets, self._farthest, device)
        used, rows = _cached_rows(longest, self._buckets, self._farthest, device)
        return self.LayerNorm(self.rel_embeddings.weight[used]), rows


def rows_of(longest: int, buckets: int, farthest: int, device: torch.device) -> Tensor:
    """(2L + 1,) rows of a table of `buckets` on either side for the distances from -L to L, in float32 as everywhere:
    which bucket begins where is a matter of rounding."""
    distances = torch.arange(-longest, longest + 1, device=device)
    near, far = buckets // 2, distances.abs()
    scale = torch.log(torch.tensor((farthest - 1) / near, device=device))
    bucket = torch.ceil(torch.log(far.clamp_min(near) / near) / scale * (near - 1)) + near
    bucket = torch.where(far <= near, far.float(), bucket) * distances.sign()
    return (bucket.long() + buckets).clamp(0, 2 * buckets - 1)


@lru_cache(maxsize=64)
def _cached_rows(longest: int, buckets: int, farthest: int, device: torch.device) -> tuple[slice, Tensor]:
    """The part of the table that stands for distances from -L to L, and `rows_of` in it: on the CPU, so that no layer
    waits for a GPU to say which part that is."""
    with torch.inference_mode(False):  # an evaluation may ask first, and a training keeps them for its backward pass
        rows = rows_of(longest, buckets, farthest, torch.device("cpu"))
        first, last = int(rows.min()), int(rows.max())
        return slice(first, last + 1), (rows - first).to(device)


class DisentangledSelfAttention(SelfAttention):
    """(T, H) -> (T, H), output projection included."""

    def __init__(
        self, hidden_size: int, num_heads: int, dropout_prob: float, distances: Distances, distance_dropout_prob: float
    ) -> None:
        super().__init__(hidden_size, num_heads, dropout_prob)
        self._shared = (distances,)  # in a tuple: the encoder has its parameters, and no layer
        self._distance_dropout_prob = distance_dropout_prob

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        qkv = self.qkv(hidden).unflatten(-1, (3, self.num_heads, -1))  # (T, 3, A, D)
        attend = attend_groups if qkv.device.type == "cpu" else attend_padded
        dropped = self.dropout_prob if self.training else 0.0
        context = attend(qkv, self._distances(layout.max_length), layout, dropped)
        return self.output(selected(context.flatten(1), rows))

    def _distances(self, longest: int) -> Tensor:
        """(2, A, 2L, D): the queries of the distances from -L to L - 1, and the keys of those from L to 1 - L; so
        `skewed` wants the products with them."""
        table, rows = self._shared[0](longest)
        table = dropout(table, self._distance_dropout_prob, self.training)
        # Their values are made for nothing: the product as a whole is one that can be packed (`apply.prepacked`).
        made = self.qkv(table).unflatten(-1, (3, self.num_heads, -1))  # (R, 3, A, D)
        # In the type of the table: the gradients of a row are added up, and all far distances share one.
        of_query, of_key, _ = made.to(table.dtype).permute(1, 2, 0, 3)
        chosen = torch.stack([of_query.index_select(1, rows[:-1]), of_key.index_select(1, rows.flip(0)[:-1])])
        return chosen.to(made.dtype)

    def scores_of_first(self, hidden: Tensor, layout: Layout) -> Tensor:
        query, key, _ = self.qkv(hidden)[: layout.total].unflatten(-1, (3, self.num_heads, -1)).unbind(1)
        of_query, of_key = self._distances(layout.max_length).transpose(1, 2)  # (2L, A, D) each
        own_query = query.index_select(0, layout.first_tokens)[layout.sequences]
        scores = own_query * (key + of_key[layout.max_length + layout.position_ids])
        scores = scores + key * of_query[layout.max_length - layout.position_ids]
        return scores.sum(-1) * _scale(key)


def _scale(values: Tensor) -> float:
    return float((_TERMS * values.shape[-1]) ** -0.5)


def attend_padded(qkv: Tensor, distances: Tensor, layout: Layout, dropout: float) -> Tensor:
    """(T, 3, A, D), (2, A, 2L, D) -> (T, A, D) on any device, also compiled: sequences padded to the longest."""
    query, key, value = layout.padded(qkv[: layout.total]).permute(2, 0, 3, 1, 4)  # each (B, A, L, D)
    of_query, of_key = distances
    scores = query @ key.mT + skewed(query @ of_key.mT) + skewed(key @ of_query.mT).mT
    scores = scores * _scale(key)
    if (seen := seen_pairs(layout, PLAIN)) is not None:
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
    context = functional.dropout(torch.softmax(scores, -1), dropout) @ value
    return context.transpose(1, 2).flatten(0, 1).index_select(0, layout.padded_index)


# torch.compiler.disable, at the first call: as a decorator it imports the compiler, a second of every stage's start.
@torch._disable_dynamo
def attend_groups(qkv: Tensor, distances: Tensor, layout: Layout, dropout: float) -> Tensor:
    """(T, 3, A, D), (2, A, 2L, D) -> (T, A, D) on the CPU, by matrix products over groups of sequences of similar
    length. Rows beyond the layout's are no tokens: zero."""
    context: Tensor = _GroupedAttention.apply(qkv, distances, layout, dropout)
    return context


class _GroupedAttention(torch.autograd.Function):
    """With its gradient; of each group, Q, K, V and the weights are kept."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, distances: Tensor, layout: Layout, dropout: float) -> Tensor:
        context = torch.empty_like(qkv[:, 0])
        context[layout.total :].zero_()
        ctx.layout, kept = layout, list[Tensor | None]()
        for group in layout.groups:
            query, key, value = gather(qkv, group)  # (M, G, D) each
            of_query, of_key = _of_group(distances, group)
            scores = torch.bmm(query, key.mT)
            scores += skewed(torch.bmm(query, of_key.mT))
            scores += skewed(torch.bmm(key, of_query.mT)).mT
            hide(scores.mul_(_scale(query)), group.lengths, seen_by(PLAIN, group.causal))
            result, further = weighted(scores, value, dropout)
            scatter(context, result[None], group)
            if any(ctx.needs_input_grad):
                kept += (query, key, value, *further)
        ctx.save_for_backward(distances, *kept)
        return context

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        distances, *saved = ctx.saved_tensors
        by_qkv = gradient.new_empty(gradient.shape[0], 3, *gradient.shape[1:])
        by_qkv[ctx.layout.total :].zero_()
        by_distances = torch.zeros_like(distances)
        for group, (query, key, value, *kept) in zip(
            ctx.layout.groups, zip(*[iter(saved)] * 5, strict=True), strict=True
        ):
            outer = gathered_gradient(gradient, group)
            inner, by_value = back_to_scores(outer, value, (kept[0], kept[1]))
            inner.mul_(_scale(query))
            of_query, of_key = _of_group(distances, group)
            from_query, from_key = unskewed(inner), unskewed(inner.mT)
            by_query = torch.baddbmm(torch.bmm(inner, key), from_query, of_key)
            by_key = torch.baddbmm(torch.bmm(inner.mT, query), from_key, of_query)
            scatter(by_qkv, torch.stack([by_query, by_key, by_value]), group)
            sums = torch.bmm(from_key.mT, key), torch.bmm(from_query.mT, query)
            of_group = _within(by_distances, group.longest)
            of_group += torch.stack(sums).view(2, len(group.lengths), *of_group.shape[1:]).sum(1)
        return by_qkv, by_distances, None, None


def _within(distances: Tensor, longest: int) -> Tensor:
    """(2, A, 2L, D) -> (2, A, 2G, D), a view of it."""
    middle = distances.shape[2] // 2
    return distances[:, :, middle - longest : middle + longest]


def _of_group(distances: Tensor, group: Group) -> Tensor:
    """(2, A, 2L, D) -> (2, M, 2G, D), for every sequence of the group."""
    return _within(distances, group.longest).repeat(1, len(group.lengths), 1, 1)


def skewed(values: Tensor) -> Tensor:
    """(..., G, 2G) -> (..., G, G), a view: [i, j] of it is [i, j - i + G]."""
    longest = values.shape[-2]
    return values.flatten(-2)[..., longest:].unflatten(-1, (longest, 2 * longest - 1))[..., :longest]


def unskewed(values: Tensor) -> Tensor:
    """The gradient of what `skewed` has taken from, from that of its result: (..., G, G) -> (..., G, 2G)."""
    longest = values.shape[-2]
    rows = functional.pad(values, (0, longest - 1)).flatten(-2)
    return functional.pad(rows, (longest, 0)).unflatten(-1, (longest, 2 * longest))
