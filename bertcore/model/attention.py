"""Multi-head self-attention over sequences that lie end to end; no token attends to another sequence."""

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.model.group_attention import Way, way_of
from bertcore.model.layout import Group, Layout
from bertcore.model.positions import PLAIN, Positions, turned, turned_tokens

varlen: Any = None
if torch.cuda.is_available():  # its import takes two seconds, and it computes on a GPU only
    with contextlib.suppress(ImportError):
        varlen = importlib.import_module("torch.nn.attention.varlen")


class SelfAttention(nn.Module):
    """(T, H) -> (T, H), output projection included. Query, key and value come from one matrix, in one product."""

    def __init__(
        self, hidden_size: int, num_heads: int, dropout_prob: float, *, bias: bool = True, positions: Positions = PLAIN
    ) -> None:
        super().__init__()
        self.num_heads, self.positions = num_heads, positions
        self.dropout_prob = dropout_prob
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size, bias=bias)
        self.output = nn.Linear(hidden_size, hidden_size, bias=bias)

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        """With `rows`, the result is of these tokens only: (T, H), (R,) -> (R, H)."""
        qkv = self.qkv(hidden).unflatten(-1, (3, self.num_heads, -1))  # (T, 3, A, D)
        dropout = self.dropout_prob if self.training else 0.0
        attend = choose(qkv, dropout)
        return self.output(selected(attend(qkv, layout, dropout, self.positions).flatten(1), rows))

    def scores_of_first(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(T, H) -> (T, A): what a sequence's first token scores each of its tokens with."""
        qkv = self.qkv(hidden)[: layout.total].unflatten(-1, (3, self.num_heads, -1))
        query, key, _ = turned_tokens(qkv, layout.position_ids, layout.max_length, self.positions)
        own_query = query.index_select(0, layout.first_tokens)[layout.sequences]
        return (own_query * key).sum(-1) * key.shape[-1] ** -0.5


def seen_by(positions: Positions, causal: bool) -> Positions:
    """What the tokens of a sequence see that is `causal` or not."""
    return replace(positions, causal=True) if causal else positions


def selected(values: Tensor, rows: Tensor | None) -> Tensor:
    """The `rows` of `values`; all where None."""
    return values if rows is None else values.index_select(0, rows)


def choose(qkv: Tensor, dropout: float) -> "Attend":
    """The fastest way that applies. All give the same numbers, up to rounding, and compute the same function."""
    if qkv.device.type == "cpu":
        return attend_groups
    # The variable-length kernel offers no dropout, and these types and sizes of a head only, on Ampere and newer.
    half, size = qkv.dtype in (torch.float16, torch.bfloat16), qkv.shape[-1]
    if varlen is None or not qkv.is_cuda or not half or size % 8 or size > 256 or dropout:
        return attend_padded
    return attend_variable if torch.cuda.get_device_capability(qkv.device) >= (8, 0) else attend_padded


def attend_variable(qkv: Tensor, layout: Layout, dropout: float, positions: Positions = PLAIN) -> Tensor:
    """(T, 3, A, D) -> (T, A, D) by torch's variable-length Flash Attention."""
    parts = turned_tokens(qkv, layout.position_ids, layout.max_length, positions)
    ends, causal = layout.cumulative, seen_by(positions, True)
    tokens, split = layout.total - layout.causal_tokens, layout.batch_size - layout.causal
    if not layout.causal:
        return _vary(parts, slice(None), ends, layout.max_length, positions)
    behind = _vary(parts, slice(tokens, None), ends[split:] - tokens, layout.max_length, causal)
    if not split:
        return behind
    return torch.cat([_vary(parts, slice(tokens), ends[: split + 1], layout.max_length, positions), behind])


def _vary(parts: tuple[Tensor, ...], rows: slice, ends: Tensor, longest: int, positions: Positions) -> Tensor:
    """(T, A, D) from `rows` of queries, keys and values, sequences that end at `ends` (B + 1,), beginning with 0."""
    query, key, value = (part[rows] for part in parts)
    reach = -1 if positions.reach is None else positions.reach  # -1: no end
    window = {"window_size": (reach, 0 if positions.causal else reach)} if positions.hides(longest) else {}
    context: Tensor = varlen.varlen_attn(query, key, value, ends, ends, longest, longest, **window)
    return context


# torch.compiler.disable, at the first call: as a decorator it imports the compiler, a second of every stage's start.
@torch._disable_dynamo
def attend_groups(qkv: Tensor, layout: Layout, dropout: float, positions: Positions = PLAIN) -> Tensor:
    """(T, 3, A, D) -> (T, A, D) on the CPU, by matrix products over groups of sequences of similar length.

    Rows beyond the layout's are no tokens: zero.
    """
    if layout.is_one_block and not torch.is_grad_enabled() and not dropout:
        return _attend_block(qkv, layout, seen_by(positions, bool(layout.causal)))
    context: Tensor = _GroupedAttention.apply(qkv, layout, dropout, positions)
    return context


def _attend_block(qkv: Tensor, layout: Layout, positions: Positions) -> Tensor:
    """As `attend_groups` to the last bit for what is one block already, such as one text, with half of its steps."""
    batch, longest = layout.batch_size, layout.max_length
    parts = qkv[: layout.total].unflatten(0, (batch, longest)).permute(2, 0, 3, 1, 4).flatten(1, 2)  # (3, B * A, L, D)
    query, key = turned(parts[:2], longest, positions)
    way = way_of(layout.lengths, longest, positions, 0.0)
    context, _ = way.forward(query, key, parts[2], layout.lengths, positions, 0.0)
    context = context.unflatten(0, (batch, -1)).transpose(1, 2).flatten(0, 1)  # (T, A, D)
    return functional.pad(context, (0, 0, 0, 0, 0, len(qkv) - layout.total))


class _GroupedAttention(torch.autograd.Function):
    """Attention with its gradient; of each group, Q, K, V and what its way needs besides are kept."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, layout: Layout, dropout: float, positions: Positions) -> Tensor:
        context = torch.empty_like(qkv[:, 0])
        context[layout.total :].zero_()
        ctx.layout, ctx.positions, ctx.ways, kept = layout, positions, list[Way](), list[Tensor | None]()
        for group in layout.groups:
            gathered, seen = gather(qkv, group), seen_by(positions, group.causal)  # (3, N * A, G, D)
            (query, key), value = turned(gathered[:2], group.longest, positions), gathered[2]
            way = way_of(group.lengths, group.longest, seen, dropout)
            result, further = way.forward(query, key, value, group.lengths, seen, dropout)
            scatter(context, result[None], group)
            if ctx.needs_input_grad[0]:
                ctx.ways.append(way)
                kept += (query, key, value, *further)
        ctx.save_for_backward(*kept)
        return context

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        result = gradient.new_empty(gradient.shape[0], 3, *gradient.shape[1:])
        result[ctx.layout.total :].zero_()
        kept = zip(*[iter(ctx.saved_tensors)] * 5, strict=True)
        for group, way, (query, key, value, *further) in zip(ctx.layout.groups, ctx.ways, kept, strict=True):
            outer = gathered_gradient(gradient, group)
            *parts, by_value = way.backward(outer, (query, key, value), further, ctx.positions)
            parts = [turned(part, group.longest, ctx.positions, back=True) for part in parts]
            scatter(result, torch.stack([*parts, by_value]), group)
        return result, None, None, None


def gather(values: Tensor, group: Group) -> Tensor:
    """(T, P, A, D) -> (P, N * A, G, D): what stands at the group's places."""
    rows = values.index_select(0, group.index).unflatten(0, (-1, group.longest))  # (N, G, P, A, D)
    return rows.permute(2, 0, 3, 1, 4).flatten(1, 2)


def gathered_gradient(gradient: Tensor, group: Group) -> Tensor:
    """(T, A, D) -> (N * A, G, D), zero at padding."""
    (outer,) = gather(gradient[:, None], group)
    if (real := group.key_mask) is not None:
        outer.view(len(group.lengths), -1, *outer.shape[1:]).masked_fill_(~real.mT, 0.0)
    return outer


def scatter(target: Tensor, values: Tensor, group: Group) -> None:
    """(P, N * A, G, D) -> the group's rows of (T, P, A, D), or of (T, A, D) for P = 1."""
    rows = values.unflatten(1, (len(group.lengths), -1)).permute(1, 3, 0, 2, 4).flatten(0, 1)  # (N * G, P, A, D)
    index = group.index
    if group.real is not None:
        rows, index = rows.index_select(0, group.real), index.index_select(0, group.real)
    target.index_copy_(0, index, rows.view(-1, *target.shape[1:]))


def attend_padded(qkv: Tensor, layout: Layout, dropout: float, positions: Positions = PLAIN) -> Tensor:
    """(T, 3, A, D) -> (T, A, D) on any device, also compiled: only here the sequences are padded to the longest."""
    batch, longest = layout.batch_size, layout.max_length
    padded = qkv.unflatten(0, (batch, longest)) if layout.is_full else layout.padded(qkv)
    query, key, value = padded.permute(2, 0, 3, 1, 4)  # each (B, A, L, D)
    query, key = (turned(part, longest, positions) for part in (query, key))
    seen = seen_pairs(layout, positions)
    context = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=dropout)
    context = context.transpose(1, 2).flatten(0, 1)  # (B * L, A, D)
    return context if layout.is_full else context.index_select(0, layout.padded_index)


def seen_pairs(layout: Layout, positions: Positions) -> Tensor | None:
    """(B, 1, 1 or L, L) bool: True where a query sees a key of its padded sequence; None where all see all."""
    longest, lengths = layout.max_length, layout.lengths
    seen = None if layout.is_full else layout.key_mask()[:, None, None, :]
    if layout.causal or positions.hides(longest):
        split = layout.batch_size - layout.causal
        hidden = [positions.hidden(longest, lengths[:split])]
        hidden += [seen_by(positions, True).hidden(longest, lengths[split:])] if layout.causal else []
        pairs = ~torch.cat(hidden)
        seen = pairs if seen is None else pairs & seen
    return seen


Attend = Callable[[Tensor, Layout, float, Positions], Tensor]
