"""Adam with decoupled weight decay: `adamw` (Loshchilov and Hutter 2019), `bert_adam` (google-research/bert), and one
call of torch's fused kernel, for optimizers that are Adam in a part of what they do."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.adamw import adamw

from bertcore.training.optimizers.config import OptimizationConfig
from bertcore.training.optimizers.groups import parameter_groups, trained


class BertAdam(Optimizer):
    """BERT's own Adam: p <- p - lr (m / (sqrt(v) + eps) + decay p), with m and v as they are, small in the first steps.

    The fused kernel divides m and v by 1 - beta^step, so its steps count from infinity: 1 - beta^inf is 1 exactly,
    for every beta below 1, and infinity + 1 is infinity again.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step of all parameters that have a gradient."""
        for group in self.param_groups:
            fused_adam(self.state, group, first_step=math.inf)


def fused_adam(
    state: dict[Tensor, dict[str, Tensor]],
    group: dict[str, Any],
    *,
    targets: Sequence[Tensor] | None = None,
    learning_rate: float | None = None,
    weight_decay: float | None = None,
    first_step: float = 0.0,
) -> None:
    """Move the parameters of `group` by one step of AdamW, or `targets` by what would be the step of each.

    `targets` are as many tensors as `trained(group)`; `learning_rate` and `weight_decay` replace those of the group.
    The means of the gradients and of their squares are kept in `state`; `first_step` is where its steps count from.
    """
    parameters = trained(group)
    for parameter in parameters:
        if parameter not in state:
            state[parameter] = {
                "step": torch.full((), first_step, dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
    states = [state[parameter] for parameter in parameters]
    adamw(
        parameters if targets is None else list(targets),
        [parameter.grad for parameter in parameters if parameter.grad is not None],
        exp_avgs=[entry["exp_avg"] for entry in states],
        exp_avg_sqs=[entry["exp_avg_sq"] for entry in states],
        max_exp_avg_sqs=[],
        state_steps=[entry["step"] for entry in states],
        fused=True,
        amsgrad=False,
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        lr=group["lr"] if learning_rate is None else learning_rate,
        weight_decay=group["weight_decay"] if weight_decay is None else weight_decay,
        eps=group["eps"],
        maximize=False,
    )


def adam_defaults(config: OptimizationConfig) -> dict[str, Any]:
    """What `fused_adam` reads from a group. `fused` tells torch to load the step counters onto the device."""
    betas = (config.beta1, config.beta2)
    return {"lr": config.learning_rate, "betas": betas, "eps": config.epsilon, "weight_decay": 0.0, "fused": True}


def build_adamw(model: nn.Module, config: OptimizationConfig) -> Optimizer:
    """AdamW over `model`'s trainable parameters, in torch's fused kernel."""
    return torch.optim.AdamW(parameter_groups(model, config), **adam_defaults(config))


def build_bert_adam(model: nn.Module, config: OptimizationConfig) -> Optimizer:
    """BERT's Adam over `model`'s trainable parameters."""
    return BertAdam(parameter_groups(model, config), adam_defaults(config))
