"""Dropout against its definition: how many are dropped, how the others are scaled, what reproduces it."""

import pytest
import torch

from bertcore.model.dropout import dropout, keep_scale


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.013])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_dropped_and_the_scale_of_the_rest(probability: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    count = 400_000
    scale = keep_scale((count // 4, 4), probability, dtype)
    dropped = (scale == 0).sum().item()
    assert scale.dtype == dtype and scale.shape == (count // 4, 4)
    assert abs(dropped - probability * count) < 5 * (count * probability * (1 - probability)) ** 0.5
    torch.testing.assert_close(scale.max(), torch.tensor(1 / (1 - probability), dtype=dtype), rtol=1e-4, atol=0)
    assert len(scale.unique()) == 2
    assert abs(torch.corrcoef((scale == 0).T.double()).fill_diagonal_(0)).max() < 0.02


def test_it_repeats_with_torchs_generator_and_differs_from_call_to_call() -> None:
    values = torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(values, 0.2, True), dropout(values, 0.2, True)
    torch.manual_seed(3)
    assert torch.equal(dropout(values, 0.2, True), first)
    assert not torch.equal(first, second)


def test_gradients_pass_where_values_do() -> None:
    values = torch.randn(500, requires_grad=True)
    result = dropout(values, 0.4, True)
    result.sum().backward()
    assert torch.equal(values.grad == 0, result == 0)


def test_without_training_or_probability_nothing_changes() -> None:
    values = torch.randn(5)
    assert dropout(values, 0.4, False) is values
    assert dropout(values, 0.0, True) is values
