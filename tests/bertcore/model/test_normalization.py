"""Layer normalisation under autocast, whose gradients are sums over thousands of rows."""

import pytest
import torch
from torch import nn

from bertcore.model.config import ARCHITECTURES, ModelConfig, build_pretraining
from bertcore.model.normalization import LayerNorm
from bertcore.objectives.span_boundary import SpanBoundaryHead


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients_are_those_of_double_precision(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(4096, 64, generator=generator).to(dtype)
    above = (0.5 + torch.randn(4096, 64, generator=generator)).to(dtype)  # of one sign in the mean, as a bias' often is
    ours, exact = LayerNorm(64), nn.LayerNorm(64, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        given = rows.clone().requires_grad_()
        found = ours(given)
    (found * above).sum().backward()
    expected = rows.double().requires_grad_()
    (exact(expected) * above.double()).sum().backward()
    assert found.dtype == torch.float32 and given.grad is not None and expected.grad is not None
    for (_, mine), (_, theirs) in zip(ours.named_parameters(), exact.named_parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None
        assert (mine.grad - theirs.grad).norm() < 1e-4 * theirs.grad.norm()
    assert (given.grad - expected.grad).norm() < 0.01 * expected.grad.norm()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_model_has_no_other_one(architecture: str) -> None:
    config = ModelConfig(architecture=architecture, preset="tiny").build(64)
    heads = [head(config, 2) for head in ARCHITECTURES[architecture].heads]
    models = [build_pretraining(config), *heads, SpanBoundaryHead(8, nn.Embedding(64, 8))]
    norms = [module for model in models for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert norms and all(isinstance(module, LayerNorm) for module in norms)
