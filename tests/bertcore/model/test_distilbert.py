"""DistilBERT against transformers: the same weights give the same outputs and gradients; both read each other."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertcore.errors import ArtifactError
from bertcore.model import bert
from bertcore.model.config import ARCHITECTURES, ModelConfig
from bertcore.model.distilbert import PRESETS, DistilBertConfig, DistilBertForMaskedLM, DistilBertModel
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from tests.bertcore.model.references import HEADS, LENGTHS, TOLERANCE, Reference, drawn

THEIRS = Reference("distilbert", "DistilBert", tolerance=TOLERANCE)
SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
@pytest.mark.parametrize("lengths", [LENGTHS, [30, 30]], ids=["padded", "full"])
def test_masked_lm_equals_transformers(activation: Any, lengths: list[int], tmp_path: Path) -> None:
    THEIRS.assert_same_masked_lm(DistilBertConfig(activation=activation, **SIZES), lengths, tmp_path)


@pytest.mark.parametrize(("family", "kind"), HEADS)
def test_heads_equal_transformers(family: Any, kind: str, tmp_path: Path) -> None:
    THEIRS.assert_same_head(DistilBertConfig(**SIZES), family, kind, tmp_path)


@pytest.mark.parametrize("kind", ["ForMaskedLM", "Model", "ForSequenceClassification"])
def test_directories_of_transformers_load_here(kind: str, tmp_path: Path) -> None:
    config = transformers.DistilBertConfig(
        vocab_size=60, dim=32, n_layers=3, n_heads=2, hidden_dim=24, max_position_embeddings=64, activation="relu"
    )
    reference = getattr(transformers, f"DistilBert{kind}")(config).eval().double()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    reference.float().save_pretrained(tmp_path)
    found = load_config(tmp_path)
    assert found == DistilBertConfig(activation="relu", **SIZES)
    model = DistilBertForMaskedLM(found).eval()
    head = sorted(name for name in model.state_dict() if name.startswith("predictions."))
    loaded = load_pretrained(model, tmp_path)
    assert loaded.missing == ([] if kind == "ForMaskedLM" else head)
    assert loaded.unused == (
        ["classifier.bias", "classifier.weight", "pre_classifier.bias", "pre_classifier.weight"]
        if kind == "ForSequenceClassification"
        else []
    )
    batch = THEIRS.batch(LENGTHS)
    encoder = reference.double() if kind == "Model" else reference.double().distilbert
    (hidden,) = model.double().distilbert(batch.ids, batch.types, batch.layout)
    THEIRS.assert_close(hidden, batch.flat(encoder(**batch.theirs).last_hidden_state))


def test_an_old_checkpoint_with_copies_and_other_keys_loads(tmp_path: Path) -> None:
    model = drawn(DistilBertForMaskedLM(DistilBertConfig(**SIZES)))
    save_pretrained(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["vocab_projector.weight"] = tensors["distilbert.embeddings.word_embeddings.weight"].clone()
    tensors["distilbert.embeddings.position_ids"] = torch.arange(64)[None]
    save_file(tensors, tmp_path / "model.safetensors")
    path = tmp_path / "config.json"
    raw = json.loads(path.read_text())
    old = {"tie_weights_": True, "sinusoidal_pos_embds": True, "finetuning_task": None}  # of the first releases
    path.write_text(json.dumps(raw | old))
    other = DistilBertForMaskedLM(load_config(tmp_path))
    loaded = load_pretrained(other, tmp_path)
    assert loaded.missing == loaded.unused == []
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items())
    path.write_text(json.dumps(raw | {"tie_word_embeddings": False}))
    with pytest.raises(ArtifactError, match="tie_word_embeddings: found False, expected True; give a DistilBERT"):
        load_config(tmp_path)


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_has_half_of_berts_layers_and_the_parameters_of_transformers(preset: str) -> None:
    config = ModelConfig(architecture="distilbert", preset=preset).build(30_522)
    assert config.num_hidden_layers == bert.PRESETS[preset]["num_hidden_layers"] // 2
    written = config.write()
    with torch.device("meta"):
        ours = ARCHITECTURES["distilbert"].names.to_huggingface(dict(DistilBertForMaskedLM(config).named_parameters()))
        theirs = dict(transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**written)).named_parameters())
    assert {name: each.shape for name, each in ours.items()} == {name: each.shape for name, each in theirs.items()}


def test_base_is_the_published_model() -> None:
    config = ModelConfig(architecture="distilbert", preset="base").build(30_522)
    published = transformers.DistilBertConfig().to_dict()
    written = config.write()
    assert {key: published[key] for key in written} == written


def test_dropout_stands_where_transformers_has_it() -> None:
    """After the embeddings and the feed-forward network, and not after attention's output."""
    config = DistilBertConfig(**SIZES | {"attention_dropout": 0.0, "dropout": 0.5})
    model = DistilBertModel(config).train()
    batch = THEIRS.batch([64, 64])
    hidden = torch.randn(batch.layout.total, 32)
    layer = model.layers[0]
    attended: list[Tensor] = []
    layer.attention_norm.register_forward_hook(lambda _, inputs, output: attended.append(inputs[0]))
    for seed in (1, 2):
        torch.manual_seed(seed)
        layer(hidden, batch.layout)
    assert torch.equal(*attended)
    embedded = model.embeddings(batch.ids, batch.types, batch.layout.position_ids)
    assert abs(float((embedded == 0).float().mean()) - 0.5) < 0.04  # 4,096 draws: standard deviation 0.008
    assert dataclasses.replace(config).with_dropout(0.3, 0.2).dropouts == (0.3, 0.2)
    assert config.with_dropout(0.3, 0.2).seq_classif_dropout == config.with_dropout(0.3, 0.2).qa_dropout == 0.3
