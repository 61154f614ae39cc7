"""What every architecture's pre-training model says of tokens, asked in either way."""

import pytest
import torch

from bertcore.model.config import ARCHITECTURES, ModelConfig, build_pretraining
from tests.bertcore.model.references import random_batch


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_logits_of_states_are_those_of_the_forward_pass(architecture: str) -> None:
    config = ModelConfig(architecture=architecture, preset="tiny").build(300)
    model = build_pretraining(config).eval()
    batch = random_batch(config, [30, 7, 19])
    inputs = batch.input_ids, batch.token_type_ids, batch.layout
    with torch.no_grad():
        states = model.base_model.hidden_states(*inputs)
        expected = model(*inputs, batch.masked_positions)[0]
        found = model.token_logits(states[batch.masked_positions])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
