"""Floating-point operations of a training step, and the peak they are measured against: model FLOPs utilisation.

Counted is what the model needs: the matrix products of a forward pass over real tokens (of the last layer's states,
those that a head reads), and twice as much for the backward pass (Chowdhery et al. 2022, appendix B). Recomputed
activations and padding earn nothing.
"""

import time

import torch

from bertcore.model.config import architecture_of
from bertcore.model.encoder_config import EncoderConfig
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.objective import Objective

_FORWARD_AND_BACKWARD = 3
_PEAK_SIZES = {"cpu": 1024, "cuda": 8192}
_PEAK_SECONDS = 0.2


def training_flops(config: EncoderConfig, batch: PreTrainingBatch, objective: Objective | None = None) -> int:
    """Of one forward and backward pass over `batch`: encoder, head for masked tokens, and what `objective` adds."""
    return _FORWARD_AND_BACKWARD * _trained(config, batch, objective) + _frozen(batch, objective)


def forward_flops(config: EncoderConfig, batch: PreTrainingBatch, objective: Objective | None = None) -> int:
    """Of the forward pass alone, as in an evaluation."""
    return _trained(config, batch, objective) + _frozen(batch, objective)


def _trained(config: EncoderConfig, batch: PreTrainingBatch, objective: Objective | None) -> int:
    if objective is None:
        return architecture_of(config).flops(config, batch.layout.lengths, batch.num_predictions)
    return objective.model_flops(config, batch) + objective.further_flops(batch)


def _frozen(batch: PreTrainingBatch, objective: Objective | None) -> int:
    return objective.frozen_flops(batch) if objective else 0


def peak_flops(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of the fastest of a few large square matrix products on `device`: what it can do at best."""
    size = _PEAK_SIZES[device.type]
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds: list[float] = []
    while sum(seconds) < _PEAK_SECONDS:
        wait_for(device)
        began = time.perf_counter()
        left @ right
        wait_for(device)
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / min(seconds)


def wait_for(device: torch.device) -> None:
    """Until it has computed what it was given; a CPU has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
