"""Floating-point operations of a training step, and the peak they are measured against: model FLOPs utilisation.

Counted is what the model needs: the matrix products of a forward pass over real tokens (of the last layer's states,
those that a head reads), and twice as much for the backward pass (Chowdhery et al. 2022, appendix B). Recomputed
activations and padding earn nothing.
"""

import time

import torch

from bertcore.model.config import BertConfig
from bertcore.objectives.batch import PreTrainingBatch

_FORWARD_AND_BACKWARD = 3
_PEAK_SIZES = {"cpu": 1024, "cuda": 8192}
_PEAK_SECONDS = 0.2


def training_flops(config: BertConfig, batch: PreTrainingBatch) -> int:
    """Of one forward and backward pass over `batch`: encoder, pooler and masked-token head."""
    lengths, width = batch.layout.lengths, config.hidden_size
    sequences, masked = len(lengths), len(batch.masked_labels)
    return _FORWARD_AND_BACKWARD * (
        encoder_flops(config, batch.layout.total, int((lengths * lengths).sum()), sequences + masked)
        + 2 * sequences * width**2
        + 2 * masked * width * (width + config.vocab_size)
    )


def encoder_flops(config: BertConfig, tokens: int, squared_lengths: int, rows: int) -> int:
    """Of one forward pass; `squared_lengths` is the sum of the sequences' squared lengths.

    The last layer's states are needed of `rows` tokens only.
    """
    width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    attention = layers * (2 * tokens * 3 * width**2 + 4 * squared_lengths * width)
    return attention + 2 * ((layers - 1) * tokens + rows) * (width**2 + 2 * width * inner)


def peak_flops(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of the fastest of a few large square matrix products on `device`: what it can do at best."""
    size = _PEAK_SIZES[device.type]
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds: list[float] = []
    while sum(seconds) < _PEAK_SECONDS:
        _wait(device)
        began = time.perf_counter()
        left @ right
        _wait(device)
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / min(seconds)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
