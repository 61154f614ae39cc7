"""The ways to compute attention give the same outputs and gradients, and the right one is chosen."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter

from bertcore.model import attention
from bertcore.model.attention import attend_groups, attend_padded, choose
from bertcore.model.bert import BertForPreTraining
from bertcore.model.config import ModelConfig
from bertcore.model.layout import Layout
from bertcore.model.positions import PLAIN, Positions, turned_tokens


def plain(qkv: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The formula (Vaswani et al. 2017, equation 1), sequence by sequence and head by head, in double precision."""
    contexts = []
    for sequence in qkv.double().split(layout.lengths.tolist()):
        query, key, value = sequence.unbind(1)  # (L, A, D)
        heads = [
            torch.softmax(query[:, head] @ key[:, head].T / query.shape[-1] ** 0.5, dim=-1) @ value[:, head]
            for head in range(query.shape[1])
        ]
        contexts.append(torch.stack(heads, dim=1))
    return torch.cat(contexts)


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    heads=st.integers(1, 3),
    head_size=st.integers(1, 17),
    attend=st.sampled_from([attend_groups, attend_padded]),
)
def test_outputs_and_gradients_are_those_of_the_formula(lengths, heads, head_size, attend):
    generator = torch.Generator().manual_seed(0)
    layout = Layout.from_lengths(torch.tensor(lengths))
    values = torch.randn(layout.total, 3, heads, head_size, generator=generator)
    weights = torch.randn(layout.total, heads, head_size, generator=generator)
    found, expected = values.clone().requires_grad_(), values.clone().requires_grad_()
    context, reference = attend(found, layout, 0.0), plain(expected, layout)
    assert context.shape == (layout.total, heads, head_size)
    torch.testing.assert_close(context.double(), reference, rtol=0, atol=1e-5 * float(values.abs().max()))
    (context * weights).sum().backward()
    (reference * weights).sum().backward()
    torch.testing.assert_close(found.grad, expected.grad, rtol=0, atol=2e-5 * float(values.abs().max()))


def test_several_groups_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    qkv = torch.randn(60, 3, 2, 8)
    lengths = torch.tensor([7, 20, 3, 20, 10])
    whole = attend_groups(qkv, Layout.from_lengths(lengths), 0.0)
    monkeypatch.setattr("bertcore.model.layout.GROUP_AREA", 2 * 20**2)
    layout = Layout.from_lengths(lengths)
    assert [group.lengths.tolist() for group in layout.groups] == [[20, 20], [10, 7, 3]]
    torch.testing.assert_close(attend_groups(qkv, layout, 0.0), whole)


@pytest.mark.parametrize("positions", [PLAIN, Positions(theta=100.0, reach=4)])
@pytest.mark.parametrize(("lengths", "beyond"), [([12], 4), ([5, 5, 5], 1), ([3, 5], 0)])
def test_without_gradients_the_numbers_are_the_same_to_the_last_bit(lengths, beyond, positions):
    layout = Layout.from_lengths(torch.tensor(lengths))
    qkv = torch.randn(layout.total + beyond, 3, 2, 8)
    expected = attend_groups(qkv.clone().requires_grad_(), layout, 0.0, positions)
    with torch.inference_mode():
        assert torch.equal(attend_groups(qkv, layout, 0.0, positions), expected)


@pytest.mark.parametrize("attend", [attend_groups, attend_padded])
def test_a_training_follows_an_evaluation(attend):
    layout, positions = Layout.from_lengths(torch.tensor([5, 3])), Positions(theta=77.0, reach=2)
    qkv = torch.randn(8, 3, 2, 4)
    with torch.inference_mode():
        expected = attend(qkv, layout, 0.0, positions)
    trained = attend(qkv.requires_grad_(), layout, 0.0, positions)
    trained.sum().backward()
    torch.testing.assert_close(trained, expected.clone())


def test_activation_checkpointing_frees_what_attention_keeps() -> None:
    layout = Layout.from_lengths(torch.tensor([12, 12]))
    qkv = torch.randn(24, 3, 2, 8, requires_grad=True)
    shapes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: shapes.append(tuple(tensor.shape)), lambda _: None):
        attend_groups(qkv, layout, 0.5)
    assert sorted(shapes) == sorted([(4, 12, 8)] * 3 + [(4, 12, 12)] * 2)  # Q, K, V; weights and their dropout


def test_the_gradient_with_dropout_is_that_of_the_drawn_weights() -> None:
    layout = Layout.from_lengths(torch.tensor([3, 5, 5]))
    qkv = torch.randn(13, 3, 2, 4, dtype=torch.float64, requires_grad=True)

    def attend(values: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(5)
        return attend_groups(values, layout, 0.3)

    assert not torch.allclose(attend(qkv), attend_groups(qkv, layout, 0.0))
    assert torch.autograd.gradcheck(attend, (qkv,))


@pytest.mark.parametrize(
    ("device", "dtype", "dropout", "name"),
    [
        ("cpu", torch.float32, 0.0, "attend_groups"),
        ("cpu", torch.bfloat16, 0.1, "attend_groups"),
        ("meta", torch.float32, 0.0, "attend_padded"),
    ],
)
def test_the_way_is_chosen_by_device(device, dtype, dropout, name):
    assert choose(torch.zeros(8, 3, 1, 4, device=device, dtype=dtype), dropout) is getattr(attention, name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cuda_equals_the_formula(dtype):
    layout = Layout.from_lengths(torch.tensor([37, 128, 5])).to("cuda")
    qkv = torch.randn(layout.total, 3, 4, 64, device="cuda", dtype=dtype)
    attend = choose(qkv, 0.0)
    assert attend is (attention.attend_padded if dtype == torch.float32 else attention.attend_variable)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(attend(qkv, layout, 0.0).double(), plain(qkv, layout), rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore:.*lru_cache:UserWarning")  # which the compiler leaves out
def test_compiled_positions_are_one_function_for_all_lengths():
    counter, positions = CompileCounter(), Positions(theta=100.0)
    compiled = torch.compile(turned_tokens, backend=counter, dynamic=True)
    for lengths in ([100, 3], [128, 60, 7], [200, 2], [33, 33, 9]):
        layout = Layout.from_lengths(torch.tensor(lengths))
        qkv = torch.randn(layout.total, 3, 2, 8)
        inputs = qkv, layout.position_ids, layout.max_length, positions
        for found, expected in zip(compiled(*inputs), turned_tokens(*inputs), strict=True):
            torch.testing.assert_close(found, expected)
    assert counter.frame_count == 1


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # the compiler's, at a graph break
@pytest.mark.parametrize("fullgraph", [True, False])
def test_the_model_compiles_for_any_lengths_and_off_the_cpu_as_one_graph(fullgraph, monkeypatch):
    torch.manual_seed(0)
    model = BertForPreTraining(ModelConfig(preset="tiny").build(50)).eval()
    if fullgraph:  # as it is elsewhere: on the CPU, attention stays outside of the graphs
        monkeypatch.setattr(attention, "choose", lambda *_: attend_padded)
    compiled = torch.compile(model, backend="eager", dynamic=True, fullgraph=fullgraph)
    for lengths in ([9, 4, 11], [30, 2], [5, 5, 5, 9]):
        layout = Layout.from_lengths(torch.tensor(lengths))
        ids = torch.arange(layout.total) % 50
        inputs = (ids, torch.zeros_like(ids), layout, torch.tensor([1, 3, 4]))
        for found, expected in zip(compiled(*inputs), model(*inputs), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
