"""Presets, overrides, and what a wrong value is answered with."""

import dataclasses

import pytest

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.model.bert import PRESETS, BertConfig
from bertcore.model.config import ARCHITECTURES, ModelConfig
from bertcore.training.config import PretrainConfig

BERT_KEYS = sorted({field.name for field in dataclasses.fields(BertConfig)} - {"vocab_size", "pad_token_id"})


@pytest.mark.parametrize(
    ("preset", "layers", "hidden", "heads", "intermediate"),
    [
        ("tiny", 2, 128, 2, 512),
        ("mini", 4, 256, 4, 1024),
        ("small", 4, 512, 8, 2048),
        ("medium", 8, 512, 8, 2048),
        ("base", 12, 768, 12, 3072),
        ("large", 24, 1024, 16, 4096),
    ],
)
def test_presets_are_the_published_sizes(preset, layers, hidden, heads, intermediate):
    config = ModelConfig(preset=preset).build(30_522)
    found = (
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        config.vocab_size,
        config.max_position_embeddings,
    )
    assert found == (layers, hidden, heads, intermediate, 30_522, 512)
    assert config.head_size == 64


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_field_of_the_encoder_can_be_overridden_in_params(architecture):
    row = ARCHITECTURES[architecture]
    given = ModelConfig(architecture=architecture).build(99)
    fields = {each.name: getattr(given, each.name) for each in dataclasses.fields(row.config)}
    for name in ("vocab_size", "pad_token_id"):  # from the tokenizer
        with pytest.raises(ConfigError, match=f"model.{name}: no key of architecture '{architecture}'"):
            parse(ModelConfig, {"architecture": architecture, name: fields.pop(name)}, "model")
    assert parse(ModelConfig, {"architecture": architecture, **fields}, "model").build(99) == given


def test_overrides_replace_the_values_of_the_preset():
    section = {
        "preset": "mini",
        "num_hidden_layers": 3,
        "hidden_size": 96,
        "hidden_dropout_prob": 0,
        "layer_norm_eps": None,
    }
    config = parse(ModelConfig, section, "params.yaml: pretrain.model").build(99, pad_token_id=1)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (3, 96, 4)
    assert config.intermediate_size == 4 * 96
    assert (config.hidden_dropout_prob, config.layer_norm_eps, config.pad_token_id) == (0.0, 1e-12, 1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("width", [0, -4])
def test_no_width_is_an_error_of_every_architecture(architecture, width):
    with pytest.raises(ValueError, match=f"hidden_size: found {width}, expected at least 1"):
        ModelConfig(architecture=architecture, fields={"hidden_size": width}).build(99)


def test_a_width_brings_what_follows_from_it():
    found = parse(ModelConfig, {"architecture": "modernbert", "preset": "tiny", "hidden_size": 512}, "model").build(99)
    small = ModelConfig(architecture="modernbert", preset="small").build(99)
    assert (found.intermediate_size, found.initializer_range) == (small.intermediate_size, small.initializer_range)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"preset": "tinny"},
            "params.yaml: pretrain.model.preset: found 'tinny'; did you mean 'tiny'? "
            "Expected one of: base, large, medium, mini, small, tiny",
        ),
        (
            {"architecture": "bart"},
            "params.yaml: pretrain.model.architecture: found 'bart'; did you mean 'bert'? "
            f"Expected one of: {', '.join(sorted(ARCHITECTURES))}",
        ),
        (
            {"hiden_size": 64},
            "params.yaml: pretrain.model.hiden_size: no key of architecture 'bert'; did you mean 'hidden_size'? "
            f"Expected one of: {', '.join(BERT_KEYS)}",
        ),
        (
            {"hidden_size": "64"},
            "params.yaml: pretrain.model.hidden_size: found '64' (str), expected integer; take the quotes off",
        ),
        (
            {"preset": "base", "num_attention_heads": 7},
            "params.yaml: pretrain.model.num_attention_heads: found 7, expected a divisor of hidden_size (768); "
            "6 or 8 would do",
        ),
        (
            {"hidden_dropout_prob": 1.0},
            "params.yaml: pretrain.model.hidden_dropout_prob: found 1.0, expected 0 <= p < 1; 0 turns dropout off",
        ),
        (
            {"num_hidden_layers": 0},
            "params.yaml: pretrain.model.num_hidden_layers: found 0, expected at least 1; correct the value",
        ),
        (
            {"num_attention_heads": -1},
            "params.yaml: pretrain.model.num_attention_heads: found -1, expected at least 1; correct the value",
        ),
        (
            {"initializer_range": 0.0},
            "params.yaml: pretrain.model.initializer_range: found 0.0, expected more than 0; correct the value",
        ),
        (
            {"hidden_act": "gelu_new2"},
            "params.yaml: pretrain.model.hidden_act: found 'gelu_new2'; did you mean 'gelu_new'? "
            "Expected one of: gelu, gelu_new, gelu_pytorch_tanh, relu",
        ),
    ],
)
def test_wrong_values_are_named_with_both_numbers_and_the_remedy(section, message):
    with pytest.raises(ConfigError) as caught:
        parse(PretrainConfig, {"model": section}, "params.yaml: pretrain")
    assert str(caught.value) == message


def test_padding_id_must_be_in_the_vocabulary():
    with pytest.raises(ValueError, match=r"pad_token_id: found 50, expected an id below vocab_size \(50\)"):
        BertConfig(vocab_size=50, pad_token_id=50)
    with pytest.raises(ValueError, match="initializer: found 'uniform'"):
        BertConfig(initializer="uniform")  # type: ignore[arg-type]


def test_presets_are_listed_from_small_to_large():
    assert list(PRESETS) == ["tiny", "mini", "small", "medium", "base", "large"]


@pytest.mark.parametrize("name", ["presett", "num_layers", "preset mini"])
def test_a_key_without_a_value_is_a_key(name: str) -> None:
    """As YAML reads `{preset mini}`, whose colon was forgotten."""
    with pytest.raises(ConfigError, match=f"params.model.{name}: no key of architecture 'bert'"):
        parse(PretrainConfig, {"model": {name: None}}, "params")
    assert parse(PretrainConfig, {"model": {"hidden_size": None}}, "params").model.fields == {}
