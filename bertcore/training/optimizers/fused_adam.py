"""One call of torch's fused AdamW kernel, for optimizers that are Adam in a part of what they do."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from bertcore.training.optimizers.groups import trained


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


def adam_defaults(learning_rate: float, betas: tuple[float, float], epsilon: float) -> dict[str, Any]:
    """What `fused_adam` reads from a group. `fused` tells torch to load the step counters onto the device."""
    return {"lr": learning_rate, "betas": betas, "eps": epsilon, "weight_decay": 0.0, "fused": True}
