"""Gradient caching (Gao et al. 2021, "Scaling deep contrastive learning batch size under memory limited setup").

The loss of a batch needs the vectors of all of its texts, but the activations of only some texts fit into memory. So
the vectors are computed without activations first; their gradients follow from the vectors alone; then each chunk is
computed again, with the same dropout, and takes its part of these gradients back to the weights. The result is that of
the whole batch at once.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Encode = Callable[[int], Tensor]
"""Number of a chunk -> (texts, H) its vectors, the same ones whenever it is asked."""


def backward(encode: Encode, chunks: int, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Add the gradients of `loss`, a function of the (texts, H) vectors of all chunks, to the weights that `encode`
    computes with; the loss."""
    if chunks == 1:
        value = loss(encode(0))
        value.backward()
        return value.detach()
    with torch.no_grad():
        parts = [encode(chunk) for chunk in range(chunks)]
    value, gradients = _of_vectors(parts, loss)
    for chunk, gradient in enumerate(gradients):
        encode(chunk).backward(gradient)
    return value


def _of_vectors(parts: Sequence[Tensor], loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
    vectors = torch.cat(list(parts)).requires_grad_()
    value = loss(vectors)
    (gradient,) = torch.autograd.grad(value, vectors)
    return value.detach(), gradient.split([len(part) for part in parts])
