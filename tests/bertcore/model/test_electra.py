"""ELECTRA against transformers: the same weights give the same outputs and gradients; both read each other."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertcore.errors import ArtifactError
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_discriminator, build_head, build_pretraining
from bertcore.model.electra import ElectraConfig, ElectraForMaskedLM, ElectraModel
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from bertcore.model.layout import Layout
from tests.bertcore.model.test_bert import HEADS, LABELS, in_pairs, logits_like

SIZES: dict[str, Any] = {
    **{"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2},
    **{"intermediate_size": 24, "max_position_embeddings": 64, "embedding_size": 20},
}
LENGTHS = [40, 5, 23, 64]
EXACT = 1e-10
"""Of the largest number: both sides compute in float64."""


def drawn(model: torch.nn.Module) -> Any:
    """The model with weights of which none is 0 and no scale is 1."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.15 * torch.randn(parameter.shape)
    return model.eval()


def reference_of(directory: Path, kind: str, labels: int = 3) -> Any:
    extra = {} if kind in ("ForMaskedLM", "ForPreTraining", "Model") else {"num_labels": labels}
    loader = getattr(transformers, f"Electra{kind}")
    return loader.from_pretrained(directory, dtype=torch.float64, **extra).eval()


def batch(lengths: list[int], vocab_size: int = 60) -> tuple[Layout, Tensor, Tensor, dict[str, Tensor]]:
    """Layout, flat ids and segments, and what transformers takes."""
    layout = Layout.from_lengths(torch.tensor(lengths))
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, vocab_size, (layout.total,), generator=generator)
    types = torch.randint(0, 2, (layout.total,), generator=generator)
    shape = (layout.batch_size, layout.max_length)
    empty = torch.zeros(layout.batch_size * layout.max_length, dtype=torch.int64)
    padded, segments = (empty.index_copy(0, layout.padded_index, each).view(shape) for each in (ids, types))
    inputs = {"input_ids": padded, "token_type_ids": segments, "attention_mask": layout.key_mask().long()}
    return layout, ids, types, inputs


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=EXACT * max(float(expected.detach().abs().max()), 1.0))


def assert_same_gradients(model: Any, reference: Any) -> None:
    row = ARCHITECTURES["electra"]
    found = row.names.to_huggingface({name: each.grad for name, each in model.named_parameters()})
    expected = {name: each.grad for name, each in reference.named_parameters()}
    assert found.keys() == expected.keys() - {"generator_lm_head.weight"}
    for name, gradient in found.items():
        # transformers gives the padding's own row of the table none; it is not read here
        rows = slice(1 if name.endswith("word_embeddings.weight") else 0, None)
        assert_close(gradient[rows], expected[name][rows])


def saved(model: Any, directory: Path) -> Any:
    """`model` in float64, as it stands in `directory`."""
    save_pretrained(model, directory)
    return model.double()


@settings(max_examples=8)
@given(
    heads=st.integers(1, 3),
    head_size=st.integers(2, 9),
    layers=st.integers(1, 3),
    embedding=st.integers(1, 30),
    inner=st.integers(1, 30),
    activation=st.sampled_from(["gelu", "gelu_new", "relu"]),
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=4),
)
def test_a_discriminator_of_any_shape_equals_transformers(
    heads: int, head_size: int, layers: int, embedding: int, inner: int, activation: Any, lengths: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    sizes = {"hidden_size": heads * head_size, "num_attention_heads": heads, "num_hidden_layers": layers}
    config = ElectraConfig(
        **{**SIZES, **sizes, "embedding_size": embedding, "intermediate_size": inner, "hidden_act": activation}
    )
    directory = tmp_path_factory.mktemp("model")
    model = saved(drawn(build_discriminator(config)), directory)
    reference = reference_of(directory, "ForPreTraining")
    layout, ids, types, inputs = batch(lengths)
    found, padded = model(ids, types, layout), reference(**inputs).logits
    expected = padded.flatten()[layout.padded_index]
    assert found.shape == (layout.total,)
    assert_close(found, expected)
    labels = torch.arange(layout.total) % 3 == 0
    torch.nn.functional.binary_cross_entropy_with_logits(found, labels.double()).backward()
    full = torch.zeros(padded.numel()).index_copy(0, layout.padded_index, labels.float()).view(padded.shape)
    reference(**inputs, labels=full.double()).loss.backward()  # its own loss, over the real tokens
    assert_same_gradients(model, reference)


@pytest.mark.parametrize("embedding", [20, 32], ids=["projected", "as wide as the layers"])
def test_a_generator_equals_transformers(embedding: int, tmp_path: Path) -> None:
    model = saved(drawn(ElectraForMaskedLM(ElectraConfig(**SIZES | {"embedding_size": embedding}))), tmp_path)
    reference = reference_of(tmp_path, "ForMaskedLM")
    layout, ids, types, inputs = batch(LENGTHS)
    places = torch.arange(0, layout.total, 3)
    (found,) = model(ids, types, layout, places)
    expected = reference(**inputs).logits.flatten(0, 1)[layout.padded_index][places]
    assert_close(found, expected)
    found.logsumexp(1).square().sum().backward()
    expected.logsumexp(1).square().sum().backward()
    assert_same_gradients(model, reference)


@pytest.mark.parametrize(("family", "kind"), HEADS)
def test_heads_equal_transformers(family: Any, kind: str, tmp_path: Path) -> None:
    labels = LABELS[family]
    model = saved(drawn(build_head(ElectraConfig(**SIZES), family, labels)), tmp_path)
    reference = reference_of(tmp_path, kind, labels)
    layout, ids, types, inputs = batch(LENGTHS)
    found, outputs = model(ids, types, layout), reference(**in_pairs(family, inputs))
    expected = logits_like(found, outputs, layout)
    assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    assert_same_gradients(model, reference)


@pytest.mark.parametrize(
    ("kind", "build"), [("ForPreTraining", build_discriminator), ("ForMaskedLM", build_pretraining)]
)
def test_directories_of_transformers_load_here(kind: str, build: Any, tmp_path: Path) -> None:
    torch.manual_seed(1)
    reference = getattr(transformers, f"Electra{kind}")(transformers.ElectraConfig(**SIZES)).eval()
    reference.save_pretrained(tmp_path)
    read = load_config(tmp_path)
    assert isinstance(read, ElectraConfig) and read == ElectraConfig(**SIZES)
    model = build(read).eval()
    loaded = load_pretrained(model, tmp_path)
    assert loaded.missing == loaded.unused == []
    layout, ids, types, inputs = batch(LENGTHS)
    extra = (torch.arange(layout.total),) if kind == "ForMaskedLM" else ()
    with torch.no_grad():
        found = model(ids, types, layout, *extra)
        expected = reference(**inputs).logits.flatten(0, 1)[layout.padded_index]
    torch.testing.assert_close(found[0] if extra else found, expected, rtol=0, atol=1e-5)
    head = build_head(read, "token_classification", 3)
    assert load_pretrained(head.base_model, tmp_path).missing == []


def test_a_config_that_says_little_has_transformers_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "electra"}))
    config, theirs = load_config(tmp_path), transformers.ElectraConfig()
    assert isinstance(config, ElectraConfig)
    for name in ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads"):
        assert getattr(config, name) == getattr(theirs, name)
    assert config.intermediate_size == theirs.intermediate_size and config.hidden_act == theirs.hidden_act


def test_a_decoder_is_refused(tmp_path: Path) -> None:
    save_pretrained(build_pretraining(ElectraConfig(**SIZES)), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"is_decoder": True}))
    with pytest.raises(ArtifactError, match="is_decoder: found True, expected False; give an ELECTRA encoder"):
        load_config(tmp_path)


@pytest.mark.parametrize(("preset", "width", "expected"), [
    ("small", 1 / 4, (64, 12, 1, 256)), ("base", 1 / 3, (256, 12, 4, 1024)), ("large", 1 / 4, (256, 24, 4, 1024)),
])  # fmt: skip
def test_generators_have_the_published_sizes(preset: str, width: float, expected: tuple[int, ...]) -> None:
    config = ModelConfig(architecture="electra", preset=preset).build(30_522)
    assert isinstance(config, ElectraConfig)
    found = config.generator(width, 1.0)
    sizes = (found.hidden_size, found.num_hidden_layers, found.num_attention_heads, found.intermediate_size)
    assert sizes == expected and found.embedding_size == config.embedding_size


def test_published_sizes_have_the_published_numbers_of_weights() -> None:
    for preset, published in (("small", 14e6), ("base", 110e6), ("large", 335e6)):
        config = ModelConfig(architecture="electra", preset=preset).build(30_522)
        with torch.device("meta"):
            model = ElectraModel(config)  # type: ignore[arg-type]
        assert sum(each.numel() for each in model.parameters()) == pytest.approx(published, rel=0.04)
