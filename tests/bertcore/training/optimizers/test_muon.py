"""Muon against the polynomial of the singular values, torch's own, and AdamW on all that is no hidden matrix."""

import pytest
import torch
from torch import Tensor, nn

from bertcore.training.optimizers.config import OptimizationConfig
from bertcore.training.optimizers.muon import Muon, orthogonalize
from tests.bertcore.training.optimizers.small import build, small_model, take_steps


def matrices(singular: Tensor, columns: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """U and V' with orthonormal columns and rows, and U S V'."""
    generator = torch.Generator().manual_seed(seed)
    rows = len(singular)
    left = torch.linalg.qr(torch.randn(rows, rows, generator=generator, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(columns, rows, generator=generator, dtype=torch.float64))[0].mT
    return left, right, left * singular @ right


@pytest.mark.parametrize("columns", [32, 48, 64, 128])
def test_orthogonalize_is_the_polynomial_of_the_singular_values(columns: int) -> None:
    singular = torch.logspace(0, -3, 32, dtype=torch.float64)
    left, right, matrix = matrices(singular, columns, seed=1)
    other = matrices(singular.flip(0), columns, seed=2)[2]
    expected = singular / singular.norm()
    for _ in range(5):
        expected = 3.4445 * expected - 4.7750 * expected**3 + 2.0315 * expected**5
    found = orthogonalize(torch.stack([matrix, other]).float() * 7, torch.float32)[0].double()
    torch.testing.assert_close(found, left * expected @ right, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [64, 256])
def test_singular_values_become_about_1(columns: int, dtype: torch.dtype) -> None:
    matrix = matrices(torch.linspace(1, 0.1, 64, dtype=torch.float64), columns, seed=3)[2]
    found = orthogonalize(matrix[None].float(), dtype)
    assert found.dtype == dtype
    values = torch.linalg.svdvals(found[0].double())
    assert values.min() > 0.6 and values.max() < 1.25


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [64, 256])
def test_no_gradient_becomes_a_leap(columns: int, dtype: torch.dtype) -> None:
    """Few directions and few rows that outweigh all others, as gradients have them: what rounding makes of the rest is
    not blown up to singular values of thousands, as it is in 2 of 100 where steps are taken on Gram matrices."""
    generator = torch.Generator().manual_seed(4)
    rows = (2 * torch.randn(500, 64, 1, generator=generator)).exp()
    directions = (3 * torch.randn(500, 1, 8, generator=generator)).exp()
    few = torch.randn(500, 64, 8, generator=generator) * directions
    found = orthogonalize(rows * few @ torch.randn(500, 8, columns, generator=generator), dtype)
    assert torch.linalg.svdvals(found.float()).max() < 1.25


def test_nothing_stays_nothing() -> None:
    assert torch.equal(orthogonalize(torch.zeros(2, 4, 8), torch.float32), torch.zeros(2, 4, 8))


CONFIG = OptimizationConfig(optimizer="muon", learning_rate=1.0, momentum=0.9)


def plain(shapes: list[tuple[int, int]], blocks: list[int], dtype: torch.dtype) -> tuple[nn.ParameterList, Muon]:
    generator = torch.Generator().manual_seed(0)
    parameters = nn.ParameterList(nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes)
    group = {"params": list(parameters), "blocks": blocks, "weight_decay": 0.1}
    return parameters, Muon([group], CONFIG, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_torch_on_plain_matrices(dtype: torch.dtype) -> None:
    shapes = [(32, 32), (128, 32), (32, 128), (32, 32), (40, 24)]
    model, ours = plain(shapes, [1] * 5, dtype)
    other, _ = plain(shapes, [1] * 5, dtype)
    theirs = torch.optim.Muon(list(other), momentum=0.9, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    start = [parameter.detach().clone() for parameter in model]
    for _ in zip(take_steps(model, ours, range(12)), take_steps(other, theirs, range(12)), strict=True):
        pass
    for mine, reference, old in zip(model, other, start, strict=True):
        # torch computes in bfloat16 whatever the processor.
        assert (mine - reference).norm() < 0.03 * (reference - old).norm()


@pytest.mark.parametrize(("launched", "dtype"), [("no", torch.float32), ("bf16", torch.bfloat16)])
def test_it_computes_in_the_precision_of_the_launcher(
    launched: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTCORE_PRECISION", "bf16" if launched == "no" else "no")
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", launched)
    optimizer = build(small_model(), "muon")
    assert isinstance(optimizer, Muon) and optimizer._product_dtype is dtype


def test_matrices_above_each_other_are_seen_apart() -> None:
    fused, ours = plain([(48, 16), (16, 16)], [3, 1], torch.float32)
    apart = nn.ParameterList(nn.Parameter(block.clone()) for block in (*fused[0].detach().chunk(3), fused[1].detach()))
    theirs = Muon([{"params": list(apart), "blocks": [1] * 4, "weight_decay": 0.1}], CONFIG, torch.float32)
    for _, rate in take_steps(fused, ours, range(6)):
        for parameter, gradient in zip(apart, (*fused[0].grad.chunk(3), fused[1].grad), strict=True):
            parameter.grad = gradient.clone()
        theirs.param_groups[0]["lr"] = rate
        theirs.step()
    torch.testing.assert_close(torch.cat(list(apart)), torch.cat(list(fused)))


def test_all_but_the_hidden_matrices_have_adamw() -> None:
    model, other = small_model(), small_model()
    ours, theirs = build(model, "muon", weight_decay=0.1), build(other, "adamw", weight_decay=0.1)
    for _ in zip(take_steps(model, ours, range(5)), take_steps(other, theirs, range(5)), strict=True):
        pass
    different = {key for key, value in model.named_parameters() if not torch.equal(value, other.get_parameter(key))}
    linears = ("attention.qkv", "attention.output", "intermediate", "output")
    assert different == {f"bert.encoder.layer.{layer}.{name}.weight" for layer in (0, 1) for name in linears}


def test_query_key_and_value_are_three_matrices() -> None:
    model = small_model()
    group = build(model, "muon").param_groups[0]
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {names[parameter]: count for parameter, count in zip(group["params"], group["blocks"], strict=True)}
    assert len(found) == 8
    assert {name for name, count in found.items() if count == 3} == {
        f"bert.encoder.layer.{layer}.attention.qkv.weight" for layer in (0, 1)
    }


def test_cautious_decay_is_that_of_the_entries_which_the_step_brings_nearer_to_0() -> None:
    shapes = [(32, 32), (64, 32), (96, 32)]
    plainly, optimizer = plain(shapes, [1, 1, 3], torch.float32)
    without, other = plain(shapes, [1, 1, 3], torch.float32)
    cautious, third = plain(shapes, [1, 1, 3], torch.float32)
    other.param_groups[0]["weight_decay"] = 0.0
    third.param_groups[0]["cautious"] = True
    start = [parameter.detach().clone() for parameter in plainly]
    rates = [
        [rate for _, rate in take_steps(model, taken, range(1, 2))]
        for model, taken in ((plainly, optimizer), (without, other), (cautious, third))
    ]
    assert rates == [[0.01]] * 3
    for before, step, found in zip(start, without, cautious, strict=True):
        nearer = (step - before) * before < 0
        assert 0.3 < nearer.float().mean() < 0.7
        expected = step - 0.01 * 0.1 * before * nearer
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
