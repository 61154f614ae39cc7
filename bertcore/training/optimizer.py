"""Optimizers by name, over parameter groups that spare biases and layer norms the weight decay."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer


class OptimizerConfig(Protocol):
    """What the optimizers need to know, of a pre-training or a fine-tuning run."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def beta1(self) -> float: ...
    @property
    def beta2(self) -> float: ...
    @property
    def epsilon(self) -> float: ...


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups: matrices and embeddings, which decay, and biases and layer norms (one dimension), which do not."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [parameter for parameter in parameters if parameter.ndim >= 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in parameters if parameter.ndim < 2], "weight_decay": 0.0},
    ]


def adamw(groups: Iterable[dict[str, Any]], config: OptimizerConfig) -> Optimizer:
    """Adam with bias correction and decoupled weight decay (Loshchilov and Hutter 2019), in one fused kernel."""
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=config.epsilon, fused=True)


OPTIMIZERS: dict[str, Callable[[Iterable[dict[str, Any]], OptimizerConfig], Optimizer]] = {"adamw": adamw}


def build_optimizer(model: nn.Module, name: str, config: OptimizerConfig) -> Optimizer:
    """The optimizer `name` over `model`'s trainable parameters."""
    return OPTIMIZERS[name](parameter_groups(model, config.weight_decay), config)
