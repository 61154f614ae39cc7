"""Dropout whose masks cost little on the CPU, where torch draws them one by one on one core."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

_LEVELS = 2**16


def dropout(values: Tensor, probability: float, training: bool) -> Tensor:
    """`values` with a share `probability` (to 1/65536) of them zero and the others scaled up, while training."""
    if not training or probability == 0.0:
        return values
    if values.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(values, probability)
    return values * keep_scale(values.shape, probability, values.dtype)


def keep_scale(shape: torch.Size | tuple[int, ...], probability: float, dtype: torch.dtype) -> Tensor:
    """An array of 0 (with `probability`) and 1 / (1 - probability), drawn from torch's generator for the CPU.

    That one gives a seed only; 16 bits an element come from SFC64, a sixth of the time of `Tensor.bernoulli_`.
    """
    size = int(np.prod(shape))
    generator = np.random.Generator(np.random.SFC64(int(torch.randint(2**63 - 1, ()))))
    words = generator.integers(0, 2**64, -(-size // 4), dtype=np.uint64)
    levels = torch.from_numpy(words.view(np.int16)[:size]).view(shape)
    dropped = round(probability * _LEVELS)
    kept = torch.ge(levels, dropped - _LEVELS // 2, out=torch.empty(shape, dtype=dtype))
    return kept.mul_(_LEVELS / (_LEVELS - dropped))
