"""Initial weights: the right distribution, reproducible."""

import pytest
import torch

from bertcore.model.bert import BertForPreTraining
from bertcore.model.config import ModelConfig
from bertcore.model.initialization import initialize


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


def test_the_generator_decides_and_nothing_else():
    model = BertForPreTraining(ModelConfig(preset="tiny").build(100))
    states = []
    for seed, noise in ((7, 1), (7, 2), (8, 2)):
        torch.manual_seed(noise)
        initialize(model, model.config, torch.Generator().manual_seed(seed))
        states.append(torch.cat([parameter.detach().flatten().clone() for parameter in model.parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[1], states[2])
