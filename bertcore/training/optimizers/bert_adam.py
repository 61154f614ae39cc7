"""BERT's own Adam (google-research/bert, optimization.py): without bias correction, the decay part of the update."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from bertcore.training.optimizers.fused_adam import adam_defaults, fused_adam
from bertcore.training.optimizers.groups import parameter_groups

if TYPE_CHECKING:  # it checks names against the table of optimizers, and so imports this module
    from bertcore.training.optimizers.config import OptimizationConfig


class BertAdam(Optimizer):
    """p <- p - lr (m / (sqrt(v) + eps) + decay p), with m and v as they are, small in the first steps.

    The fused kernel divides m and v by 1 - beta^step, so its steps count from infinity: 1 - beta^inf is 1 exactly,
    for every beta below 1, and infinity + 1 is infinity again.
    """

    def __init__(
        self, groups: Iterable[dict[str, Any]], learning_rate: float, betas: tuple[float, float], epsilon: float
    ) -> None:
        super().__init__(groups, adam_defaults(learning_rate, betas, epsilon))

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step of all parameters that have a gradient."""
        for group in self.param_groups:
            fused_adam(self.state, group, first_step=math.inf)


def build(model: nn.Module, config: "OptimizationConfig") -> Optimizer:
    """BERT's Adam over `model`'s trainable parameters."""
    groups = parameter_groups(model, config)
    return BertAdam(groups, config.learning_rate, (config.beta1, config.beta2), config.epsilon)
