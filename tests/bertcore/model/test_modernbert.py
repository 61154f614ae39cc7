"""ModernBERT against transformers: the same weights give the same outputs, loss and gradients; both read each other."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bertcore.errors import ArtifactError
from bertcore.model.attention import attend_groups, attend_padded
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_head, build_pretraining
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from bertcore.model.layout import Layout
from bertcore.model.modernbert_config import ModernBertConfig
from bertcore.model.positions import Positions
from tests.bertcore.model.references import HEADS, LENGTHS, Reference

TOLERANCE = 1e-5
"""Of the largest number: transformers turns queries and keys, and takes eager softmax, in float32 whatever the type."""
THEIRS = Reference("modernbert", "ModernBert", tied=frozenset({"decoder.weight"}), tolerance=TOLERANCE)

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "local_attention": 8,
    "pad_token_id": 0,
}
"""The window of 4 tokens to either side hides some of `LENGTHS`, but in the second sequence none beyond its end."""


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("lengths", [LENGTHS, [30, 30]], ids=["padded", "full"])
def test_masked_lm_equals_transformers(every: int, lengths: list[int], tmp_path: Path) -> None:
    config = ModernBertConfig(global_attn_every_n_layers=every, global_rope_theta=500.0, **SIZES)
    # Its eager attention makes NaN of padding whose window is empty.
    attention = "eager" if len(set(lengths)) == 1 else "sdpa"
    THEIRS.assert_same_masked_lm(config, lengths, tmp_path, attn_implementation=attention)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(("family", "kind"), HEADS)
def test_heads_equal_transformers(family: Any, kind: str, pooling: Any, tmp_path: Path) -> None:
    THEIRS.assert_same_head(ModernBertConfig(classifier_pooling=pooling, **SIZES), family, kind, tmp_path)


def test_directories_of_transformers_load_here(tmp_path: Path) -> None:
    theirs = {name: value for name, value in SIZES.items() if name != "max_position_embeddings"}
    config = transformers.ModernBertConfig(**theirs, global_attn_every_n_layers=2, max_position_embeddings=64)
    torch.manual_seed(1)
    reference = transformers.ModernBertForMaskedLM(config).eval()
    reference.save_pretrained(tmp_path)
    read = load_config(tmp_path)
    assert isinstance(read, ModernBertConfig) and read.global_attn_every_n_layers == 2 and read.local_attention == 8
    model = build_pretraining(read).eval()
    loaded = load_pretrained(model, tmp_path)
    assert loaded.missing == loaded.unused == []
    batch = THEIRS.batch(LENGTHS)
    (found,) = model(batch.ids, batch.types, batch.layout, torch.arange(batch.layout.total))
    with torch.no_grad():
        expected = batch.flat(reference(**batch.theirs).logits)
    torch.testing.assert_close(found, expected, rtol=0, atol=2 * TOLERANCE * float(expected.abs().max()))
    head = build_head(read, "token_classification", 3)
    assert load_pretrained(head.base_model, tmp_path).missing == []


def test_a_published_config_of_version_4_is_read(tmp_path: Path) -> None:
    published = {
        **{"model_type": "modernbert", "vocab_size": 60, "hidden_size": 32, "num_attention_heads": 2},
        **{"num_hidden_layers": 7, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0},
        **{"local_rope_theta": 10000.0, "local_attention": 128, "pad_token_id": 3, "reference_compile": False},
    }
    (tmp_path / "config.json").write_text(json.dumps(published))
    config = load_config(tmp_path)
    expected = ModernBertConfig(
        **{"vocab_size": 60, "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 7, "pad_token_id": 3},
        intermediate_size=1152,
        max_position_embeddings=8192,
    )
    assert config == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention_bias": True}, "attention_bias: found True, expected False"),
        ({"layer_types": ["full_attention"] * 3 + ["sliding_attention"]}, "layer_types: found full attention in the"),
        ({"layer_types": 17}, "layer_types: found 17, expected a list"),
        ({"rope_parameters": {"full_attention": 17}}, "full_attention: found 17, expected a dict"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "rope_parameters.full_attention: found rope_type 'yarn', expected 'default'",
        ),
    ],
)
def test_other_kinds_of_it_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    save_pretrained(build_pretraining(ModernBertConfig(**SIZES)), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ArtifactError, match=message):
        load_config(tmp_path)


@pytest.mark.parametrize("positions", [Positions(theta=100.0), Positions(theta=100.0, reach=3), Positions(reach=3)])
def test_both_ways_of_attention_agree(positions: Positions) -> None:
    layout = Layout.from_lengths(torch.tensor([9, 2, 14]))
    torch.manual_seed(1)
    qkv = torch.randn(layout.total, 3, 2, 8, dtype=torch.float64, requires_grad=True)
    results = []
    for attend in (attend_groups, attend_padded):
        context = attend(qkv, layout, 0.0, positions)
        (gradient,) = torch.autograd.grad(context.square().sum(), qkv)
        results.append((context, gradient))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_window_that_holds_the_sequence_hides_nothing() -> None:
    assert not Positions(reach=4).hides(5) and Positions(reach=4).hides(6)
    assert not Positions().hides(10**6)


def test_the_presets_have_about_the_weights_of_bert() -> None:
    for preset in ("tiny", "mini", "small", "medium", "base", "large"):
        counts = []
        for name in ("bert", "modernbert"):
            config = ModelConfig(architecture=name, preset=preset).build(30_522)
            with torch.device("meta"):
                model = ARCHITECTURES[name].encoder(config)
            counts.append(sum(each.numel() for layer in model.layers for each in layer.parameters() if each.ndim == 2))
            assert config.intermediate_size % 64 == 0
        # Tiny: four layers of 4 * 128 * 128 + 3 * 128 * 192 weights beside two of 12 * 128 * 128.
        deeper = 17 / 12 if preset == "tiny" else 1
        assert counts[1] == pytest.approx(deeper * counts[0], rel=0.05)


def test_published_sizes_have_the_published_numbers_of_weights() -> None:
    for preset, published in (("modernbert-base", 149e6), ("modernbert-large", 395e6)):
        config = ModelConfig(architecture="modernbert", preset=preset).build(50_368)
        with torch.device("meta"):
            model = build_pretraining(config)
        assert sum(each.numel() for each in model.parameters()) == pytest.approx(published, rel=0.01)


def test_initial_weights_are_smaller_where_blocks_end() -> None:
    config = ModelConfig(architecture="modernbert", preset="mini").build(300)
    plain = dataclasses.replace(config, scale_residual_outputs=False)
    torch.manual_seed(1)
    scaled = dict(build_pretraining(config).named_parameters())
    torch.manual_seed(1)
    for name, parameter in build_pretraining(plain).named_parameters():
        factor = 8**-0.5 if name.endswith("output.weight") else 1.0
        torch.testing.assert_close(scaled[name], factor * parameter)
