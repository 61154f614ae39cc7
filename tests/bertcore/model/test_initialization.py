"""Initial weights: the right distribution."""

import pytest
import torch

from bertcore.model.bert import BertForPreTraining
from bertcore.model.config import ModelConfig


@pytest.mark.parametrize(
    ("initializer", "deviation", "largest"), [("truncated_normal", 0.0176, 0.04), ("normal", 0.02, 0.2)]
)
def test_weights_follow_the_named_distribution(initializer, deviation, largest):
    # A normal distribution cut at two standard deviations keeps 0.8796 of its own.
    torch.manual_seed(0)
    model = BertForPreTraining(ModelConfig(preset="tiny", fields={"initializer": initializer}).build(2000))
    for name, parameter in model.state_dict().items():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif parameter.ndim == 1:
            assert bool((parameter == 1).all()), name
        else:
            assert float(parameter.abs().max()) <= largest, name
            tolerance = 5 * deviation / (2 * parameter.numel()) ** 0.5
            assert abs(float(parameter.std()) - deviation) < tolerance + 2e-5, name
