"""RoBERTa against transformers: the same weights give the same outputs and gradients; both read each other."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bertcore.errors import ArtifactError, ConfigError
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_pretraining
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from bertcore.model.roberta import RobertaConfig, RobertaForMaskedLM, RobertaModel
from tests.bertcore.model.references import HEADS, LENGTHS, TOLERANCE, Reference, drawn, padded, saved

PAD = 1
THEIRS = Reference("roberta", "Roberta", pad=PAD, tolerance=TOLERANCE)
SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 66,
}


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
@pytest.mark.parametrize("lengths", [LENGTHS, [30, 30]], ids=["padded", "full"])
def test_masked_lm_equals_transformers(hidden_act: Any, lengths: list[int], tmp_path: Path) -> None:
    THEIRS.assert_same_masked_lm(RobertaConfig(hidden_act=hidden_act, **SIZES), lengths, tmp_path)


@pytest.mark.parametrize(("family", "kind"), HEADS)
def test_heads_equal_transformers(family: Any, kind: str, tmp_path: Path) -> None:
    THEIRS.assert_same_head(RobertaConfig(**SIZES), family, kind, tmp_path)


def test_padding_within_a_text_is_counted_as_transformers_does(tmp_path: Path) -> None:
    """A text may hold a literal <pad>; the attention mask of transformers' tokenizer is 1 there."""
    model, batch = saved(drawn(RobertaModel(RobertaConfig(**SIZES))), tmp_path), THEIRS.batch(LENGTHS)
    batch.ids[[0, 7, 8, 39, 40, 44]] = PAD
    batch.ids[[3, 41]] = 0
    expected = THEIRS.load(tmp_path, "Model")(**batch.theirs | {"input_ids": padded(batch.ids, batch.layout, PAD)})
    hidden, pooled = model(batch.ids, batch.types, batch.layout)
    THEIRS.assert_close(hidden, batch.flat(expected.last_hidden_state))
    THEIRS.assert_close(pooled, expected.pooler_output)


@pytest.mark.parametrize(
    "kind", ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
)
def test_directories_of_transformers_load_here(kind: str, tmp_path: Path) -> None:
    config = transformers.RobertaConfig(**{**SIZES, "hidden_act": "relu"})  # two segments and 1e-12, Hugging Face's
    reference = getattr(transformers, f"Roberta{kind}")(config).eval().double()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    reference.float().save_pretrained(tmp_path)
    found = load_config(tmp_path)
    assert found == RobertaConfig(hidden_act="relu", type_vocab_size=2, layer_norm_eps=1e-12, **SIZES)
    model = RobertaForMaskedLM(found).eval()
    head = sorted(name for name in model.state_dict() if name.startswith("lm_head."))
    loaded = load_pretrained(model, tmp_path)
    assert loaded.missing == ([] if kind == "ForMaskedLM" else head)
    assert all("encoder" not in name and "embeddings" not in name for name in loaded.unused)
    assert any("pooler" in name for name in loaded.unused) == (kind == "Model")
    batch = THEIRS.batch(LENGTHS)
    encoder = reference.double() if kind == "Model" else reference.double().roberta
    hidden = model.double().roberta.hidden_states(batch.ids, batch.types, batch.layout)
    THEIRS.assert_close(hidden, batch.flat(encoder(**batch.theirs).last_hidden_state))


def test_an_old_checkpoint_with_copies_and_a_pooler_loads(tmp_path: Path) -> None:
    """As the published models are: a pooler that no head reads, positions as a buffer, the tied decoder."""
    model = drawn(RobertaForMaskedLM(RobertaConfig(**SIZES)))
    save_pretrained(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["lm_head.decoder.weight"] = tensors["roberta.embeddings.word_embeddings.weight"].clone()
    tensors["lm_head.decoder.bias"] = tensors["lm_head.bias"].clone()
    tensors["roberta.embeddings.position_ids"] = torch.arange(66)[None]
    pooler = {f"roberta.pooler.dense.{name}": tensor for name, tensor in torch.nn.Linear(32, 32).state_dict().items()}
    save_file(tensors | pooler, tmp_path / "model.safetensors")
    path = tmp_path / "config.json"
    raw = json.loads(path.read_text())
    other = RobertaForMaskedLM(load_config(tmp_path))
    loaded = load_pretrained(other, tmp_path)
    assert (loaded.missing, loaded.unused) == ([], sorted(pooler))
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items())
    encoder = RobertaModel(load_config(tmp_path))
    assert load_pretrained(encoder, tmp_path).missing == []
    path.write_text(json.dumps(raw | {"position_embedding_type": "relative_key"}))
    with pytest.raises(ArtifactError, match="position_embedding_type: found 'relative_key'.*give a RoBERTa encoder"):
        load_config(tmp_path)


@pytest.mark.parametrize("preset", ARCHITECTURES["roberta"].presets)
def test_each_preset_has_the_parameters_of_transformers(preset: str) -> None:
    config = ModelConfig(architecture="roberta", preset=preset).build(50_265)
    written = config.write()
    with torch.device("meta"):
        ours = ARCHITECTURES["roberta"].names.to_huggingface(dict(RobertaForMaskedLM(config).named_parameters()))
        theirs = dict(transformers.RobertaForMaskedLM(transformers.RobertaConfig(**written)).named_parameters())
    assert {name: each.shape for name, each in ours.items()} == {name: each.shape for name, each in theirs.items()}


def test_base_and_large_have_the_published_sizes() -> None:
    """124,697,433 and 355,412,057 parameters of roberta-base and roberta-large, their masked-LM heads included."""
    counts = []
    for preset in ("base", "large"):
        with torch.device("meta"):
            model = build_pretraining(ModelConfig(architecture="roberta", preset=preset).build(50_265))
        counts.append(sum(parameter.numel() for parameter in model.parameters()))
    assert counts == [124_697_433, 355_412_057]


def test_a_sequence_is_as_long_as_the_positions_behind_the_padding_allow() -> None:
    config = RobertaConfig(**SIZES)
    assert config.max_sequence_length == 64 and RobertaConfig().max_sequence_length == 512
    model = RobertaModel(config)
    batch = THEIRS.batch([64, 65])
    with pytest.raises(ConfigError, match="a sequence of 65 tokens is longer than the 64 positions of the model"):
        model.hidden_states(batch.ids, batch.types, batch.layout)
    with pytest.raises(ValueError, match="max_position_embeddings: found 2, expected more than 2"):
        RobertaConfig(**SIZES | {"max_position_embeddings": 2})


def test_the_id_of_the_padding_is_a_part_of_the_encoder(tmp_path: Path) -> None:
    save_pretrained(RobertaForMaskedLM(RobertaConfig(**SIZES)), tmp_path)
    with pytest.raises(ArtifactError, match="config.json: pad_token_id: found 1, expected 0"):
        load_pretrained(RobertaForMaskedLM(RobertaConfig(**SIZES, pad_token_id=0)), tmp_path)
