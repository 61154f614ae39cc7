"""The last layer of every head keeps float32, though the encoder computes in bfloat16."""

import pytest
import torch
from torch import Tensor, nn

from bertcore.model.bert import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from bertcore.model.encoder import EncoderModule
from bertcore.model.layout import Layout

LENGTHS = [5, 3, 7, 2, 6, 4, 8, 5]


def heads(config: BertConfig) -> dict[str, tuple[EncoderModule, str]]:
    """Each with the name of its last layer."""
    return {
        "regression": (BertForSequenceClassification(config, 1), "classifier"),
        "classes": (BertForSequenceClassification(config, 3), "classifier"),
        "tags": (BertForTokenClassification(config, 3), "classifier"),
        "answers": (BertForQuestionAnswering(config), "qa_outputs"),
    }


@pytest.mark.parametrize("family", ["regression", "classes", "tags", "answers"])
def test_last_layer_is_exact_under_bf16_autocast(family: str, config: BertConfig) -> None:
    torch.manual_seed(1)
    model, name = heads(config)[family]
    layer = model.eval().get_submodule(name)
    assert isinstance(layer, nn.Linear)
    torch.nn.init.normal_(layer.weight, std=0.3)
    torch.nn.init.constant_(layer.bias, 3.0)
    given: list[Tensor] = []
    layer.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0].detach()))
    ids = torch.randint(5, config.vocab_size, (sum(LENGTHS),))
    layout = Layout.from_lengths(torch.tensor(LENGTHS))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(ids, torch.zeros_like(ids), layout)
    (states,) = given
    expected = states.double() @ layer.weight.double().T + layer.bias.double()
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits.double(), expected, rtol=1e-6, atol=1e-5)
    assert not torch.equal(logits, logits.bfloat16().float())  # which is what the rounding would leave
    logits.sum().backward()
    assert layer.weight.grad is not None
    summed = states.double().sum(dim=0).expand_as(layer.weight)
    torch.testing.assert_close(layer.weight.grad.double(), summed, rtol=1e-5, atol=1e-4)


def test_encoder_computes_in_bf16_all_the_same(config: BertConfig) -> None:
    torch.manual_seed(1)
    model = BertForSequenceClassification(config, 1).eval()
    ids = torch.randint(5, config.vocab_size, (sum(LENGTHS),))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        layout = Layout.from_lengths(torch.tensor(LENGTHS))
        pooled = model.bert.pool(model.bert.hidden_states(ids, torch.zeros_like(ids), layout, layout.first_tokens))
    assert pooled.dtype == torch.bfloat16
