"""LAMB (You et al. 2020, algorithm 2): Adam whose step is, in each matrix, in proportion to the matrix."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from bertcore.training.optimizers.adam import adam_defaults, fused_adam
from bertcore.training.optimizers.config import OptimizationConfig
from bertcore.training.optimizers.groups import block_counts, parameter_groups, trained, trained_blocks


class Lamb(Optimizer):
    """p <- p - lr |p| / |u| u, with u = m' / (sqrt(v') + eps) + decay p and m', v' corrected for their start at 0.

    The trust ratio |p| / |u| is 1 where either norm is 0, and in the groups without `blocks`: biases and layer norms
    (the default of NVIDIA's apex, FusedLAMB). It is not clipped.

    In a group, `blocks` holds for each parameter how many matrices it is made of, each with a ratio of its own.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step of all parameters that have a gradient."""
        for group in self.param_groups:
            if group["blocks"]:
                self._adaptive_step(group)
            else:
                fused_adam(self.state, group)

    def _adaptive_step(self, group: dict[str, Any]) -> None:
        if not (parameters := trained(group)):
            return
        # -u: the kernel moves what stands in these tensors, so far the decay, by Adam's step at learning rate 1.
        updates = torch._foreach_mul(parameters, -group["weight_decay"])
        fused_adam(self.state, group, targets=updates, learning_rate=1.0, weight_decay=0.0)
        parts, steps = (_blocks(tensors, trained_blocks(group)) for tensors in (parameters, updates))
        norms = torch.stack(torch._foreach_norm(parts)), torch.stack(torch._foreach_norm(steps))
        ratios = torch.where((norms[0] > 0) & (norms[1] > 0), norms[0] / norms[1], 1.0) * group["lr"]
        torch._foreach_addcmul_(parts, steps, list(ratios.unbind()))


def _blocks(tensors: Iterable[Tensor], counts: Iterable[int]) -> list[Tensor]:
    return [block for tensor, count in zip(tensors, counts, strict=True) for block in tensor.chunk(count)]


def build(model: nn.Module, config: OptimizationConfig) -> Optimizer:
    """LAMB over `model`'s trainable parameters."""
    groups = parameter_groups(model, config)
    for group in groups:
        group["blocks"] = block_counts(model, [parameter for parameter in group["params"] if parameter.ndim >= 2])
    return Lamb(groups, {**adam_defaults(config), "blocks": []})
