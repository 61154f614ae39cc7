"""Optimizers by name. The learning rate is read from the groups at each step, and means the same in every group.

| name | what it is | source |
|---|---|---|
| `adamw` | Adam, with the decay beside the update | Loshchilov and Hutter 2019 |
| `bert_adam` | the same without bias correction | google-research/bert |
| `lamb` | the same with a step in proportion to each matrix, for large batches | You et al. 2020 |
| `muon` | orthogonal steps for the encoder's matrices, AdamW for the rest | Jordan et al. 2024, Liu et al. 2025 |
"""

from collections.abc import Callable

from torch import nn
from torch.optim import Optimizer

from bertcore.training.optimizers import adam, lamb, muon
from bertcore.training.optimizers.config import OptimizationConfig, OptimizerName

OPTIMIZERS: dict[OptimizerName, Callable[[nn.Module, OptimizationConfig], Optimizer]] = {
    "adamw": adam.build_adamw,
    "bert_adam": adam.build_bert_adam,
    "lamb": lamb.build,
    "muon": muon.build,
}


def build_optimizer(model: nn.Module, config: OptimizationConfig) -> Optimizer:
    """The optimizer that `config` names, over `model`'s trainable parameters."""
    return OPTIMIZERS[config.optimizer](model, config)
