"""AdamW against torch's plain loop."""

import torch

from tests.bertcore.training.optimizers.small import build, small_model, take_steps


def test_equals_torch() -> None:
    model, other = small_model(), small_model()
    ours = build(model, "adamw", beta1=0.8, beta2=0.95, epsilon=1e-5, weight_decay=0.1)
    named = [(parameter.ndim >= 2, parameter) for parameter in other.parameters()]
    groups = [
        {"params": [parameter for matrix, parameter in named if matrix], "weight_decay": 0.1},
        {"params": [parameter for matrix, parameter in named if not matrix], "weight_decay": 0.0},
    ]
    theirs = torch.optim.AdamW(groups, betas=(0.8, 0.95), eps=1e-5, foreach=False, fused=False)
    for _ in zip(take_steps(model, ours, range(20)), take_steps(other, theirs, range(20)), strict=True):
        torch.testing.assert_close(model.state_dict(), other.state_dict())
