"""DeBERTa against transformers: the same weights give the same outputs and gradients; both read each other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.nn import functional
from transformers.models.deberta_v2 import modeling_deberta_v2 as theirs

from bertcore.errors import ArtifactError
from bertcore.model.config import ModelConfig, build_discriminator, build_head, build_pretraining
from bertcore.model.deberta import DebertaConfig, DebertaModel
from bertcore.model.disentangled_attention import (
    DisentangledSelfAttention,
    Distances,
    attend_groups,
    attend_padded,
    rows_of,
    skewed,
    unskewed,
)
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.model.layout import Layout
from tests.bertcore.model.references import HEADS, LENGTHS, Reference, drawn, saved

THEIRS = Reference("deberta-v2", "DebertaV2")
SIZES: dict[str, Any] = {
    **{"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2},
    **{"intermediate_size": 24, "max_position_embeddings": 64, "position_buckets": 16, "max_relative_positions": 64},
}
PUBLISHED: dict[str, Any] = {
    **{"model_type": "deberta-v2", "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm"},
    **{"share_att_key": True, "pos_att_type": "p2c|c2p", "layer_norm_eps": 1e-7, "max_relative_positions": -1},
    **{"position_biased_input": False, "type_vocab_size": 0, "hidden_size": 768, "num_attention_heads": 12},
    **{"num_hidden_layers": 12, "intermediate_size": 3072, "max_position_embeddings": 512, "vocab_size": 128100},
}
"""What the config.json of version 3, size base, says."""


def _exact_root(values: Tensor, terms: int) -> Tensor:
    return torch.tensor(values.shape[-1] * terms, dtype=torch.float64).sqrt()


@pytest.fixture(scope="module", autouse=True)
def exact_scale() -> Iterator[None]:
    """transformers divides scores by a root in float32, whatever type it computes in."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(theirs, "scaled_size_sqrt", _exact_root)
        yield


@settings(max_examples=10)
@given(
    heads=st.integers(1, 3),
    head_size=st.integers(2, 9),
    layers=st.integers(1, 3),
    buckets=st.sampled_from([2, 7, 12, 64, 256]),
    farthest=st.sampled_from([20, 64]),
    activation=st.sampled_from(["gelu", "gelu_new", "relu"]),
    lengths=st.lists(st.integers(1, 64), min_size=1, max_size=4),
)
def test_a_masked_lm_of_any_shape_equals_transformers(
    heads: int, head_size: int, layers: int, buckets: int, farthest: int, activation: Any, lengths: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    sizes = {"hidden_size": heads * head_size, "num_attention_heads": heads, "num_hidden_layers": layers}
    sizes |= {"position_buckets": buckets, "max_relative_positions": farthest}
    assume(farthest - 1 > buckets // 2 or buckets // 2 >= SIZES["max_position_embeddings"] - 1)
    config = DebertaConfig(**{**SIZES, **sizes, "hidden_act": activation})
    THEIRS.assert_same_masked_lm(config, lengths, tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(("family", "kind"), HEADS)
def test_heads_equal_transformers(family: Any, kind: str, tmp_path: Path) -> None:
    THEIRS.assert_same_head(DebertaConfig(**SIZES), family, kind, tmp_path)


def test_a_discriminator_is_transformers_encoder_with_the_published_head(tmp_path: Path) -> None:
    """Which has the names of the published weights, and no class in transformers."""
    model = saved(drawn(build_discriminator(DebertaConfig(**SIZES))), tmp_path)
    head = {name: tensor.double() for name, tensor in load_file(tmp_path / "model.safetensors").items()}
    reference, batch = THEIRS.load(tmp_path, "Model"), THEIRS.batch(LENGTHS)
    states = reference(**batch.theirs).last_hidden_state
    normed = functional.layer_norm(states + states[:, :1], states.shape[-1:], *_of("LayerNorm", head), eps=1e-7)
    inner = functional.gelu(functional.linear(normed, *_of("dense", head)))
    expected = batch.flat(functional.linear(inner, *_of("classifier", head)).squeeze(-1))
    found = model(batch.ids, batch.types, batch.layout)
    THEIRS.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    THEIRS.assert_same_gradients(model.base_model, reference)


def _of(layer: str, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    return tensors[f"mask_predictions.{layer}.weight"], tensors[f"mask_predictions.{layer}.bias"]


def test_directories_of_transformers_load_here(tmp_path: Path) -> None:
    torch.manual_seed(1)
    reference = transformers.DebertaV2ForMaskedLM(transformers.DebertaV2Config(**{**PUBLISHED, **SIZES})).eval()
    reference.save_pretrained(tmp_path)
    read = load_config(tmp_path)
    assert read == DebertaConfig(**SIZES)
    model = build_pretraining(read).eval()
    loaded = load_pretrained(model, tmp_path)
    assert loaded.missing == loaded.unused == []
    batch = THEIRS.batch(LENGTHS)
    with torch.no_grad():
        (found,) = model(batch.ids, batch.types, batch.layout, torch.arange(batch.layout.total))
        expected = batch.flat(reference(**batch.theirs).logits)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert load_pretrained(build_head(read, "token_classification", 3).base_model, tmp_path).missing == []


def test_the_published_config_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED))
    assert load_config(tmp_path) == DebertaConfig(vocab_size=128_100)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"conv_kernel_size": 3}, "conv_kernel_size: found 3, expected 0; give a DeBERTa of version 2 or 3 without"),
        ({"share_att_key": None}, "share_att_key: found False, expected True"),
        ({"pos_att_type": "c2p"}, r"pos_att_type: found \['c2p'\], expected \['c2p', 'p2c'\]"),
        ({"embedding_size": 128}, "embedding_size: found 128, expected 768"),
        ({"position_buckets": -1}, "position_buckets: found -1, expected at least 2, such as 256"),
        ({"legacy": False}, "legacy: found False, expected True"),
        ({"type_vocab_size": 2}, "type_vocab_size: found 2, expected 0"),
    ],
)
def test_another_deberta_is_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED | change))
    with pytest.raises(ArtifactError, match=said):
        load_config(tmp_path)


def test_published_sizes_have_the_published_numbers_of_weights() -> None:
    # Their cards count the layers apart from the embeddings, in millions.
    for preset, layers in (("v3-xsmall", 22), ("v3-small", 44), ("base", 86), ("large", 304)):
        config = ModelConfig(architecture="deberta-v2", preset=preset).build(128_100)
        with torch.device("meta"):
            model = DebertaModel(config)  # type: ignore[arg-type]
        backbone = sum(each.numel() for each in model.parameters()) - model.token_embeddings.weight.numel()
        assert backbone == pytest.approx(layers * 1e6, rel=0.04)


def test_rows_of_distances_are_those_of_transformers() -> None:
    for buckets, farthest in ((256, 512), (32, 512), (16, 64), (7, 100)):
        found = rows_of(600, buckets, farthest, torch.device("cpu"))
        expected = theirs.make_log_bucket_position(torch.arange(-600, 601), buckets, farthest).long() + buckets
        assert torch.equal(found, expected.clamp(0, 2 * buckets - 1))


@given(longest=st.integers(1, 9))
def test_skewed_takes_the_place_of_each_distance_and_gives_it_back(longest: int) -> None:
    values = torch.arange(3 * longest * 2 * longest).view(3, longest, 2 * longest)
    found = skewed(values)
    for row in range(longest):
        for column in range(longest):
            assert torch.equal(found[:, row, column], values[:, row, column - row + longest])
    back = unskewed(found)
    assert torch.equal(skewed(back), found) and int((back != 0).sum()) == int((found != 0).sum())


@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6), heads=st.integers(1, 3), data=st.data())
def test_groups_give_what_padding_gives(lengths: list[int], heads: int, data: st.DataObject) -> None:
    causal = data.draw(st.integers(0, len(lengths)))
    generator = torch.Generator().manual_seed(0)
    layout = Layout.from_lengths(torch.tensor(lengths), causal)
    qkv = torch.randn(layout.total, 3, heads, 8, generator=generator)
    distances = torch.randn(2, heads, 2 * layout.max_length, 8, generator=generator)
    weights = torch.randn(layout.total, heads, 8, generator=generator)
    results = []
    for attend in (attend_groups, attend_padded):
        parts = [qkv.clone().requires_grad_(), distances.clone().requires_grad_()]
        context = attend(*parts, layout, 0.0)
        (context * weights).sum().backward()
        results.append([context, *(part.grad for part in parts)])
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=3e-5)


def test_few_graphs_are_compiled_for_any_lengths() -> None:
    torch.manual_seed(2)
    attention = DisentangledSelfAttention(16, 2, 0.0, Distances(16, 6, 20, 1e-7), 0.0)

    def attend(qkv: Tensor, layout: Layout) -> Tensor:  # as it is elsewhere than on the CPU
        return attend_padded(qkv, attention._distances(layout.max_length), layout, 0.0)

    counter = CompileCounter()
    compiled = torch.compile(attend, backend=counter, dynamic=True, fullgraph=True)
    for lengths in ([9, 4], [20, 7, 3], [5, 13], [31, 2, 8], [40, 40, 1, 6], [17, 3]):
        layout = Layout.from_lengths(torch.tensor(lengths))
        qkv = torch.randn(layout.total, 3, 2, 8)
        torch.testing.assert_close(compiled(qkv, layout), attend(qkv, layout))
    assert counter.frame_count <= 2  # one more where numbers of the first batch were equal by chance


def test_the_first_tokens_scores_are_those_of_attention() -> None:
    torch.manual_seed(2)
    attention = DisentangledSelfAttention(16, 2, 0.0, Distances(16, 6, 20, 1e-7), 0.0)
    layout, hidden = Layout.from_lengths(torch.tensor([9, 4])), torch.randn(13, 16)
    scores = attention.scores_of_first(hidden, layout)
    # With the identity as values, attention gives its own weights.
    qkv = attention.qkv(hidden).unflatten(-1, (3, 2, -1)).detach().clone()
    for begin, length in ((0, 9), (9, 4)):
        weights = torch.stack(
            [_weight_of(attention, qkv, layout, begin, token) for token in range(begin, begin + length)], dim=0
        )
        torch.testing.assert_close(scores[begin : begin + length].softmax(0), weights)


def _weight_of(attention: Any, qkv: Tensor, layout: Layout, query: int, token: int) -> Tensor:
    """(A,) what the token at `query` takes of the value of `token`."""
    values = qkv.clone()
    values[:, 2] = 0.0
    values[token, 2] = 1.0
    with torch.no_grad():
        return attend_padded(values, attention._distances(layout.max_length), layout, 0.0)[query, :, 0]


@pytest.mark.parametrize("farthest", [8, 9])
def test_distances_that_cannot_be_told_are_refused_where_sequences_have_them(farthest: int) -> None:
    sizes = {**SIZES, "max_relative_positions": farthest}
    DebertaConfig(**{**sizes, "max_position_embeddings": 8})
    with pytest.raises(ValueError, match="max_relative_positions: found .* the nearest 8 distances apart, .* least 10"):
        DebertaConfig(**sizes)


def test_far_distances_have_their_gradient_in_bfloat16() -> None:
    torch.manual_seed(3)
    distances = Distances(16, 8, 32, 1e-7)
    attention = DisentangledSelfAttention(16, 2, 0.0, distances, 0.0)
    layout, hidden, towards = Layout.from_lengths(torch.tensor([2048])), torch.randn(2048, 16), torch.randn(16)
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            context = attention(hidden, layout)
        found += torch.autograd.grad((context.float() @ towards).sum(), [distances.rel_embeddings.weight])
    expected, rounded = found
    assert float((rounded - expected).norm() / expected.norm()) < 0.03  # 0.6 where they are added up in bfloat16
