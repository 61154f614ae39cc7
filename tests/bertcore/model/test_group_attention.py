"""What is computed by blocks and by tiles is what all pairs give, exactly; and the way that pays is taken."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcore.model import group_attention
from bertcore.model.attention import attend_groups, attend_padded
from bertcore.model.group_attention import PAIRS, TILES, WINDOWS, Way, way_of
from bertcore.model.layout import Layout
from bertcore.model.positions import PLAIN, Positions


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 4 tokens or of the reach, taken in sequences of more than two; tiles from 40 tokens on."""
    for name, value in {"_SHORTEST_BLOCK": 4, "_BLOCKS": 2, "_TILED_FROM": 40}.items():
        monkeypatch.setattr(group_attention, name, value)


def both(lengths: list[int], positions: Positions, heads: int = 2) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Output and gradient in double precision: by groups, and of the padded reference with torch's own attention."""
    generator = torch.Generator().manual_seed(3)
    layout = Layout.from_lengths(torch.tensor(lengths))
    values = torch.randn(layout.total, 3, heads, 6, generator=generator, dtype=torch.float64)
    weights = torch.randn(layout.total, heads, 6, generator=generator, dtype=torch.float64)
    found = []
    for attend in (attend_groups, attend_padded):
        qkv = values.clone().requires_grad_()
        context = attend(qkv, layout, 0.0, positions)
        (context * weights).sum().backward()
        assert qkv.grad is not None
        found.append((context.detach(), qkv.grad))
        with torch.no_grad():
            torch.testing.assert_close(attend(values, layout, 0.0, positions), found[-1][0], rtol=0, atol=1e-12)
    return found


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    reach=st.integers(1, 9),
    theta=st.sampled_from([None, 10_000.0]),
)
def test_windows_give_what_the_mask_gives(lengths: list[int], reach: int, theta: float | None) -> None:
    (found, gradient), (expected, reference) = both(lengths, Positions(reach=reach, theta=theta))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient, reference, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths", [[40], [64, 64], [41, 70]], ids=str)
def test_tiles_give_what_all_pairs_give(lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertcore.model.layout.GROUP_AREA", 64 * 64 * 2)
    (found, gradient), (expected, reference) = both(lengths, Positions(theta=10_000.0))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient, reference, rtol=0, atol=1e-12)


def test_the_gradient_of_windows_with_dropout_is_that_of_the_drawn_weights() -> None:
    layout = Layout.from_lengths(torch.tensor([13, 12, 3]))
    qkv = torch.randn(28, 3, 2, 4, dtype=torch.float64, requires_grad=True)

    def attend(values: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(5)
        return attend_groups(values, layout, 0.3, Positions(reach=2))

    assert not torch.allclose(attend(qkv), attend_groups(qkv, layout, 0.0, Positions(reach=2)))
    assert torch.autograd.gradcheck(attend, (qkv,))


def test_windows_keep_what_they_compute_and_tiles_nothing_of_the_pairs() -> None:
    kept: dict[int, int] = {}
    for positions in (Positions(reach=4), PLAIN):
        for length in (80, 160):
            layout = Layout.from_lengths(torch.tensor([length]))
            sizes: list[int] = []
            noted = partial(lambda sizes, tensor: sizes.append(tensor.numel()), sizes)
            with torch.autograd.graph.saved_tensors_hooks(noted, lambda _: None):
                attend_groups(torch.randn(length, 3, 2, 8, requires_grad=True), layout, 0.0, positions)
            kept[length] = sum(sizes)
        assert kept[160] == 2 * kept[80]
    assert group_attention.kept_of_a_query(80, Positions(reach=4), 0.0) == 12
    assert [group_attention.kept_of_a_query(80, PLAIN, dropout) for dropout in (0.0, 0.1)] == [0, 80]


@pytest.mark.parametrize(
    ("lengths", "positions", "dropout", "way"),
    [
        ([8], Positions(reach=4), 0.0, PAIRS),
        ([9], Positions(reach=4), 0.1, WINDOWS),
        ([60, 50], Positions(reach=30), 0.0, PAIRS),
        ([61], Positions(reach=30), 0.0, WINDOWS),
        ([39], PLAIN, 0.0, PAIRS),
        ([40], PLAIN, 0.0, TILES),
        ([40], PLAIN, 0.1, PAIRS),
        ([40, 39], PLAIN, 0.0, PAIRS),
        ([40], Positions(reach=39), 0.0, TILES),
    ],
)
def test_the_way_that_pays_is_taken(lengths: list[int], positions: Positions, dropout: float, way: Way) -> None:
    assert way_of(torch.tensor(lengths), max(lengths), positions, dropout) is way
