"""BERT's Adam against the formula of google-research/bert, parameter by parameter."""

import math

import pytest
import torch
from torch import Tensor

from tests.bertcore.training.optimizers.small import build, small_model, take_steps


def expected(
    value: Tensor, gradient: Tensor, state: dict[str, Tensor], rate: float, decay: float, beta2: float
) -> Tensor:
    """One step from `value`, which changes `state`."""
    state["m"] = 0.9 * state["m"] + 0.1 * gradient
    state["v"] = beta2 * state["v"] + (1 - beta2) * gradient**2
    update = state["m"] / (state["v"].sqrt() + 1e-6)
    return value - rate * (update + decay * value)


@pytest.mark.parametrize("beta2", [0.999, 0.0, 0.99999])
def test_equals_the_formula_also_after_loading(beta2: float) -> None:
    model = small_model()
    optimizer = build(model, "bert_adam", beta2=beta2, weight_decay=0.1)
    values = {key: value.clone().double() for key, value in model.named_parameters()}
    states = {key: {name: torch.zeros_like(value) for name in "mv"} for key, value in values.items()}
    for step, rate in take_steps(model, optimizer, range(20)):
        for key, parameter in model.named_parameters():
            decay, gradient = 0.1 if parameter.ndim >= 2 else 0.0, parameter.grad.double()
            values[key] = expected(values[key], gradient, states[key], rate, decay, beta2).detach()
            torch.testing.assert_close(parameter.double(), values[key], rtol=1e-3, atol=1e-6)
        if step == 9:
            saved = optimizer.state_dict()
            optimizer.load_state_dict(saved)


def test_the_first_step_is_large_as_nothing_corrects_the_bias() -> None:
    model = small_model()
    bias = model.cls["predictions"].bias
    optimizer = build(model, "bert_adam", learning_rate=0.01)
    bias.grad = torch.full_like(bias, 3.0)
    optimizer.step()
    # (1 - beta1) g / sqrt((1 - beta2) g^2), where the corrected step is 1.
    torch.testing.assert_close(bias.detach(), torch.full_like(bias, -0.01 * 0.1 / math.sqrt(0.001)))
