"""Every optimizer moves each layer by its share of the rate."""

import pytest
import torch

from bertcore.finetune.config import RunConfig
from bertcore.finetune.loop import scale_layers
from bertcore.model.bert import BertConfig, BertForSequenceClassification
from bertcore.training.optimizers import OPTIMIZERS, build_optimizer
from bertcore.training.optimizers.groups import set_learning_rate

EXPECTED = {
    "bert.embeddings.word_embeddings.weight": 0.5**3,
    "bert.embeddings.LayerNorm.bias": 0.5**3,
    "bert.encoder.layer.0.attention.qkv.weight": 0.5**2,
    "bert.encoder.layer.1.output_norm.weight": 0.5,
    "bert.encoder.layer.1.attention.qkv.weight": 0.5,
    "bert.pooler.dense.weight": 1.0,
    "classifier.weight": 1.0,
}


def moved(config: BertConfig, optimizer_name: str, decay: float) -> dict[str, torch.Tensor]:
    """What one step with the same gradients changes."""
    torch.manual_seed(1)
    model = BertForSequenceClassification(config, 3)
    task = RunConfig(format="f", data="d", optimizer=optimizer_name, weight_decay=0.0, layer_decay=decay)
    optimizer = build_optimizer(model, task)
    scale_layers(optimizer, model, decay)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    set_learning_rate(optimizer, 1e-2)
    optimizer.step()
    return {name: parameter.detach() - before[name] for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_scaled_by_the_place_of_the_layer(name: str, config: BertConfig) -> None:
    plain, decayed = moved(config, name, 1.0), moved(config, name, 0.5)
    assert plain.keys() == decayed.keys()
    for parameter, scale in EXPECTED.items():
        torch.testing.assert_close(decayed[parameter], scale * plain[parameter], rtol=2e-2, atol=1e-6)
        assert plain[parameter].abs().max() > 0


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_parameter_is_in_one_group(name: str, config: BertConfig) -> None:
    model = BertForSequenceClassification(config, 3)
    optimizer = build_optimizer(model, RunConfig(format="f", data="d", optimizer=name))
    scale_layers(optimizer, model, 0.8)
    found = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert len(found) == len(set(found)) and set(found) == set(model.parameters())
    assert all(
        len(group["blocks"]) in (0, len(group["params"])) for group in optimizer.param_groups if "blocks" in group
    )
