"""Cross entropy over a vocabulary, summed, with the number of right predictions."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Rows of logits worked on at a time on the CPU, so that they stay in the cache between passes. 64 rows of 8,192 and of
# 30,522 entries were the fastest of 64, 256 and all.
CHUNK_ROWS = 64


_IGNORED = -100
"""torch's label of rows that do not count."""


def cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(N', C) logits and (N,) class ids -> sum of the losses (float32, with gradient) and number of right ones (int64).

    The first N rows count; further ones get no gradient. N may be 0. On the CPU `logits` are used up: do not read them
    afterwards.
    """
    if logits.device.type == "cpu" and not torch.compiler.is_compiling():
        return _ChunkedCrossEntropy.apply(logits, labels)
    return _whole(logits, functional.pad(labels, (0, len(logits) - len(labels)), value=_IGNORED))


def _of_all(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    correct = (logits.detach().argmax(-1) == labels).sum()
    return functional.cross_entropy(logits.float(), labels, ignore_index=_IGNORED, reduction="sum"), correct


_whole = _of_all


def compile_cross_entropy() -> None:
    """From now on, elsewhere than on the CPU, by a compiled function: the logits are read where they lie, and none in
    float32 are written."""
    global _whole
    _whole = torch.compile(_of_all, dynamic=True)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Writes the gradient over the logits, in float32 a few rows at a time: one (N, C) array instead of torch's three.

    Exponentials of float32 logits replace them in the forward pass. 16-bit logits stay, and their exponentials are
    computed again in the backward pass, so that the gradient is rounded once. The labels' own entries are taken out
    first: what is left says whether they are the highest, and their gradient, p - 1, needs no difference.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        count = len(labels)
        places = torch.arange(count), labels
        gold = logits[places].float()
        logits[places] = -math.inf
        highest, others = torch.empty(count), torch.empty(count)
        right = torch.zeros((), dtype=torch.int64)
        for rows, chunk in _chunks(logits, count):
            rival = chunk.amax(1)
            right += _right(gold[rows], rival, chunk, labels[rows])
            torch.maximum(gold[rows], rival, out=highest[rows])
            torch.sum(chunk.sub_(highest[rows, None]).exp_(), 1, out=others[rows])
        sums = others + (gold - highest).exp()
        ctx.save_for_backward(logits, labels, highest, sums, others)
        ctx.mark_non_differentiable(right)
        return (sums.log() + highest - gold).sum(dtype=torch.float64).float(), right

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        logits, labels, highest, sums, others = ctx.saved_tensors
        own, scale = logits.dtype == torch.float32, gradient / sums
        # As a summand of the exponent the factor costs no pass of its own.
        shift, sign = highest - scale.abs().log(), gradient.sign()
        for rows, chunk in _chunks(logits, len(labels)):
            if own:
                chunk.mul_(scale[rows, None])
            else:
                chunk.sub_(shift[rows, None]).exp_()
                logits[rows] = chunk if sign > 0 else chunk.mul_(sign)
        logits[torch.arange(len(labels)), labels] = (-scale * others).to(logits.dtype)
        logits[len(labels) :].zero_()
        return logits, None


def _chunks(logits: Tensor, count: int) -> Iterator[tuple[slice, Tensor]]:
    """The first `count` rows in float32, CHUNK_ROWS at a time: the logits' own memory where they are that, else one
    buffer for all."""
    own = logits.dtype == torch.float32
    buffer = logits if own else torch.empty(min(CHUNK_ROWS, count), logits.shape[1])
    for start in range(0, count, CHUNK_ROWS):
        rows = slice(start, min(start + CHUNK_ROWS, count))
        yield rows, logits[rows] if own else buffer[: rows.stop - start].copy_(logits[rows])


def _right(gold: Tensor, rival: Tensor, others: Tensor, labels: Tensor) -> Tensor:
    """How many rows argmax would give their label: the first of the highest entries counts.

    `rival` are the highest of `others`, the entries beside the labels' `gold`.
    """
    right = (gold > rival).sum()
    if (tied := gold == rival).any():
        right += (labels[tied] < others[tied].argmax(1)).sum()
    return right
