"""Muon (Jordan et al. 2024): the momentum of every hidden matrix, made orthogonal. All other parameters have AdamW."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from bertcore.precision import precision
from bertcore.training.optimizers.adam import adam_defaults, fused_adam
from bertcore.training.optimizers.config import OptimizationConfig
from bertcore.training.optimizers.groups import block_counts, hidden_matrices, parameter_groups, trained, trained_blocks

_A, _B, _C = 3.4445, -4.7750, 2.0315
"""Jordan's polynomial a s + b s^3 + c s^5 of the singular values: applied five times, it lifts 0.01 to about 0.7."""
_EPSILON = 1e-7


class Muon(Optimizer):
    """p <- p - lr (decay p + 0.2 sqrt(max(rows, columns)) O), with O the orthogonalised Nesterov momentum.

    The factor gives O the usual size of AdamW's update (Liu et al. 2025, "Muon is scalable"), so that learning rate and
    decay mean the same in every group. In a group, `blocks` holds for each parameter how many matrices, one above the
    other, it is made of; groups without are AdamW's. Where `cautious` is set, only entries that the step itself brings
    nearer to 0 decay (Chen et al. 2025, "Cautious weight decay"). Matrix products are computed in `product_dtype`.
    """

    def __init__(
        self, groups: Iterable[dict[str, Any]], config: OptimizationConfig, product_dtype: torch.dtype
    ) -> None:
        own = {"momentum": config.momentum, "blocks": [], "cautious": False}
        super().__init__(groups, {**adam_defaults(config), **own})
        self._product_dtype = product_dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step of all parameters that have a gradient."""
        for group in self.param_groups:
            if group["blocks"]:
                self._orthogonal_step(group)
            else:
                fused_adam(self.state, group)

    def _orthogonal_step(self, group: dict[str, Any]) -> None:
        parameters = trained(group)
        if not parameters:
            return
        decay = group["lr"] * group["weight_decay"]
        if not group["cautious"]:
            torch._foreach_mul_(parameters, 1 - decay)
        momenta, counts = self._momenta(parameters, group), trained_blocks(group)
        # Matrices of one shape, lying or standing, go through the products together.
        alike: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
        for parameter, momentum, count in zip(parameters, momenta, counts, strict=True):
            for pair in zip(_lying(parameter, count), _lying(momentum, count), strict=True):
                alike.setdefault(tuple(pair[0].shape), []).append(pair)
        for (_, longer), pairs in alike.items():
            targets, stacked = zip(*pairs, strict=True)
            updates = orthogonalize(torch.stack(stacked), self._product_dtype).unbind()
            if group["cautious"]:
                smaller = [(update * target > 0) * target for target, update in zip(targets, updates, strict=True)]
                torch._foreach_add_(targets, smaller, alpha=-decay)
            torch._foreach_add_(targets, updates, alpha=-0.2 * math.sqrt(longer) * group["lr"])

    def _momenta(self, parameters: list[Tensor], group: dict[str, Any]) -> tuple[Tensor, ...]:
        """Nesterov's: the mean of the gradients after this step, mixed once more with the gradient of this step."""
        for parameter in parameters:
            if parameter not in self.state:
                self.state[parameter] = {"momentum_buffer": torch.zeros_like(parameter)}
        means = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_lerp_(means, gradients, 1 - group["momentum"])
        return torch._foreach_lerp(gradients, means, group["momentum"])


def _lying(parameter: Tensor, count: int) -> list[Tensor]:
    """Its matrices as views with at least as many columns as rows."""
    return [block if block.shape[0] <= block.shape[1] else block.mT for block in parameter.chunk(count)]


def orthogonalize(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """(N, R, C) with R <= C -> (N, R, C) in `dtype`: singular values above about 0.01 of the norm become about 1.

    Five steps of Newton-Schulz, each from the matrices themselves. Several in a row on the Gram matrices alone would be
    less to compute, but bfloat16's rounding gives those negative eigenvalues, which the polynomial multiplies by 12 at
    each step: gradients of which a few rows outweigh all others came out with singular values of thousands.
    """
    result = (matrices / torch.linalg.matrix_norm(matrices, keepdim=True).clamp_min(_EPSILON)).to(dtype)
    for _ in range(5):
        gram = torch.bmm(result, result.mT)
        polynomial = torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C)
        result = torch.baddbmm(result, polynomial, result, beta=_A)
    return result


def build(model: nn.Module, config: OptimizationConfig) -> Optimizer:
    """Muon for the matrices of `model`'s encoder layers, AdamW for its embeddings, heads, biases and layer norms."""
    hidden, groups = hidden_matrices(model), []
    for group in parameter_groups(model, config):
        for matrices in (True, False):
            chosen = [parameter for parameter in group["params"] if (parameter in hidden) == matrices]
            if chosen:
                blocks = block_counts(model, chosen) if matrices else []
                groups.append({**group, "params": chosen, "blocks": blocks, "cautious": config.refinements.cautious})
    return Muon(groups, config, torch.bfloat16 if precision() == "bf16" else torch.float32)
