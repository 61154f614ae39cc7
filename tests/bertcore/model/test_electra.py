"""ELECTRA against transformers: the same weights give the same outputs and gradients; both read each other."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcore.errors import ArtifactError
from bertcore.model.config import ModelConfig, build_discriminator, build_head, build_pretraining
from bertcore.model.electra import ElectraConfig, ElectraModel
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from tests.bertcore.model.references import HEADS, LENGTHS, Reference, drawn, padded, saved

THEIRS = Reference("electra", "Electra", tied=frozenset({"generator_lm_head.weight"}), segments=True)

SIZES: dict[str, Any] = {
    **{"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2},
    **{"intermediate_size": 24, "max_position_embeddings": 64, "embedding_size": 20},
}


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
    reference, batch = THEIRS.load(directory, "ForPreTraining"), THEIRS.batch(lengths)
    found = model(batch.ids, batch.types, batch.layout)
    assert found.shape == (batch.layout.total,)
    THEIRS.assert_close(found, batch.flat(reference(**batch.theirs).logits))
    labels = (torch.arange(batch.layout.total) % 3 == 0).double()
    torch.nn.functional.binary_cross_entropy_with_logits(found, labels).backward()
    reference(**batch.theirs, labels=padded(labels, batch.layout)).loss.backward()  # its own loss, over the real tokens
    THEIRS.assert_same_gradients(model, reference)


@pytest.mark.parametrize("embedding", [20, 32], ids=["projected", "as wide as the layers"])
def test_a_generator_equals_transformers(embedding: int, tmp_path: Path) -> None:
    THEIRS.assert_same_masked_lm(ElectraConfig(**SIZES | {"embedding_size": embedding}), LENGTHS, tmp_path)


@pytest.mark.parametrize(("family", "kind"), HEADS)
def test_heads_equal_transformers(family: Any, kind: str, tmp_path: Path) -> None:
    THEIRS.assert_same_head(ElectraConfig(**SIZES), family, kind, tmp_path)


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
    batch = THEIRS.batch(LENGTHS)
    extra = (torch.arange(batch.layout.total),) if kind == "ForMaskedLM" else ()
    with torch.no_grad():
        found = model(batch.ids, batch.types, batch.layout, *extra)
        expected = batch.flat(reference(**batch.theirs).logits)
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
