"""A packed encoder against the same one under autocast: the same numbers."""

import copy

import pytest
import torch

from bertcore.apply.prepacked import PackedLinear, pack
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_head
from bertcore.model.layout import Layout

ENTRIES = 60
LENGTHS = [[16], [5, 40, 23], [7, 7]]
ROUNDING = 2.0**-8
"""Of a number in bfloat16."""


@pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    reason="this processor, or this build of torch, has no packed products in bfloat16",
)
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_gives_the_numbers_of_autocast(architecture, monkeypatch):
    monkeypatch.setenv("BERTCORE_PRECISION", "bf16")
    torch.manual_seed(1)
    model = build_head(ModelConfig(architecture=architecture).build(ENTRIES), "sequence_classification", 3).eval()
    packed = copy.deepcopy(model)
    pack(packed)
    assert any(isinstance(module, PackedLinear) for module in packed.modules())
    for lengths in LENGTHS:
        layout = Layout.from_lengths(torch.tensor(lengths))
        ids = torch.arange(layout.total) % ENTRIES
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            expected, found = (each(ids, torch.zeros_like(ids), layout) for each in (model, packed))
        # The processor may take another kernel for packed weights, which adds in another order.
        torch.testing.assert_close(found, expected, rtol=4 * ROUNDING, atol=4 * ROUNDING * float(expected.abs().max()))


def test_nothing_is_rounded_in_float32(monkeypatch):
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    model = build_head(ModelConfig().build(ENTRIES), "sequence_classification", 3)
    pack(model)
    assert not any(isinstance(module, PackedLinear) for module in model.modules())
