"""LAMB against algorithm 2 of the paper, matrix by matrix."""

import torch
from torch import Tensor

from tests.bertcore.training.optimizers.small import blocks, build, small_model, take_steps

BETA1, BETA2, EPSILON, DECAY = 0.9, 0.99, 1e-6, 0.1


class Reference:
    """One matrix, or one parameter that is none."""

    def __init__(self, value: Tensor, adaptive: bool) -> None:
        self.value, self.adaptive = value.double(), adaptive
        self.m, self.v, self.steps = torch.zeros_like(self.value), torch.zeros_like(self.value), 0

    def step(self, gradient: Tensor, rate: float) -> None:
        self.steps += 1
        self.m = BETA1 * self.m + (1 - BETA1) * gradient
        self.v = BETA2 * self.v + (1 - BETA2) * gradient**2
        update = self.m / (1 - BETA1**self.steps) / ((self.v / (1 - BETA2**self.steps)).sqrt() + EPSILON)
        ratio = 1.0
        if self.adaptive:
            update = update + DECAY * self.value
            sizes = float(self.value.norm()), float(update.norm())
            ratio = sizes[0] / sizes[1] if min(sizes) > 0 else 1.0
        self.value = self.value - rate * ratio * update


def test_equals_the_paper() -> None:
    model = small_model()
    with torch.no_grad():
        model.cls["seq_relationship"].weight.zero_()  # a norm of 0: the ratio is 1
    optimizer = build(model, "lamb", beta2=BETA2, weight_decay=DECAY)
    references = {
        key: [Reference(block.detach(), value.ndim >= 2) for block in blocks(key, value)]
        for key, value in model.named_parameters()
    }
    for _, rate in take_steps(model, optimizer, range(20)):
        for key, parameter in model.named_parameters():
            for reference, gradient in zip(references[key], blocks(key, parameter.grad.double()), strict=True):
                reference.step(gradient, rate)
            expected = torch.cat([reference.value for reference in references[key]])
            torch.testing.assert_close(parameter.detach().double(), expected, rtol=1e-4, atol=1e-6, msg=key)


def test_the_step_is_in_proportion_to_the_matrix() -> None:
    model = small_model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    list(take_steps(model, build(model, "lamb"), range(1, 2)))
    for key, value in model.named_parameters():
        for old, new in zip(blocks(key, before[key]), blocks(key, value.detach()), strict=True):
            if value.ndim >= 2:
                torch.testing.assert_close((new - old).norm(), 0.01 * old.norm())
