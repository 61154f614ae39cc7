"""Adam with bias correction and decoupled weight decay (Loshchilov and Hutter 2019), in torch's fused kernel."""

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim import Optimizer

from bertcore.training.optimizers.groups import parameter_groups

if TYPE_CHECKING:  # it checks names against the table of optimizers, and so imports this module
    from bertcore.training.optimizers.config import OptimizationConfig


def build(model: nn.Module, config: "OptimizationConfig") -> Optimizer:
    """AdamW over `model`'s trainable parameters."""
    groups = parameter_groups(model, config)
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=config.epsilon, fused=True)
