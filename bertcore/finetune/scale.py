"""Numbers as a head learns them: with mean 0 and standard deviation 1, whatever unit they are given in."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bertcore.errors import InputError
from bertcore.model.encoder import EncoderModule

_FARTHEST = 2.0**17
"""Deviations from 0: a float32 has 24 bits, of which seven are left for the difference."""


@dataclass(frozen=True)
class Scale:
    """A head begins near 0 and moves by about the learning rate a step: numbers far from 0, or far from each other, it
    would not reach within a training."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, numbers: NDArray[Any]) -> "Scale":
        """That of `numbers`, one at least; the deviation of equal ones is taken for 1.

        `InputError` for numbers that a model, whose own are of 32 bits, cannot tell apart.
        """
        mean, deviation = float(numbers.mean(dtype=np.float64)), float(numbers.std(dtype=np.float64))
        if numbers.min() < numbers.max() and abs(mean) > _FARTHEST * deviation:
            raise InputError(
                f"labels: found numbers around {mean:,.6g} that differ by {deviation:.3g}, expected some that 32 bits "
                "tell apart; take a number off all of them, such as the smallest"
            )
        return cls(mean, deviation if numbers.min() < numbers.max() else 1.0)

    def standardised(self, numbers: NDArray[Any]) -> NDArray[np.float32]:
        """Targets, or the logits of a teacher, as they are learned."""
        return ((numbers.astype(np.float64) - self.mean) / self.deviation).astype(np.float32)

    def restored(self, model: EncoderModule) -> EncoderModule:
        """A copy of `model`, which has learned standardised numbers, that says them in their own unit: its last layer
        is another one."""
        model = deepcopy(model)
        layer = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
        assert layer.out_features == 1, "a last layer of more than one number"
        with torch.no_grad():
            layer.weight.mul_(self.deviation)
            layer.bias.mul_(self.deviation).add_(self.mean)
        return model
