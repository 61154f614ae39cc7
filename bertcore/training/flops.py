"""Floating-point operations of a training step, and the peak they are measured against: model FLOPs utilisation.

Counted is what the model needs: the matrix products of a forward pass over real tokens, and twice as much for the
backward pass (Chowdhery et al. 2022, appendix B). Recomputed activations and padding earn nothing.
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
    lengths = batch.layout.lengths
    return _FORWARD_AND_BACKWARD * (
        encoder_flops(config, batch.layout.total, int((lengths * lengths).sum()))
        + 2 * batch.layout.batch_size * config.hidden_size**2
        + 2 * len(batch.masked_labels) * config.hidden_size * (config.hidden_size + config.vocab_size)
    )


def encoder_flops(config: BertConfig, tokens: int, squared_lengths: int) -> int:
    """Of one forward pass through all layers; `squared_lengths` is the sum of the sequences' squared lengths."""
    width, inner = config.hidden_size, config.intermediate_size
    products = 2 * tokens * (4 * width**2 + 2 * width * inner)
    attention = 4 * squared_lengths * width
    return config.num_hidden_layers * (products + attention)


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
