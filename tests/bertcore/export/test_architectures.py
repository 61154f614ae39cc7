"""A saved model of every class of every architecture beside BERT passes the gate, transformers and ONNX Runtime; a
changed one does not."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bertcore.errors import ArtifactError
from bertcore.export import gate, onnx, verify
from bertcore.export.probe import Expected, Probe, difference, require_equal
from bertcore.model.albert import AlbertConfig
from bertcore.model.config import architecture_of, build_discriminator, build_head, build_pretraining
from bertcore.model.deberta import DebertaConfig
from bertcore.model.distilbert import DistilBertConfig
from bertcore.model.electra import ElectraConfig
from bertcore.model.encoder import EncoderModule, HeadFamily
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import WEIGHTS, label_names, load_kind, save_pretrained
from bertcore.model.modernbert_config import ModernBertConfig
from bertcore.model.roberta import RobertaConfig
from bertcore.tokens import byte_bpe, wordpiece
from tests.samples import byte_tokenizer, tokenizer

SHAPE: dict[str, Any] = {
    **{"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2},
    **{"intermediate_size": 24, "max_position_embeddings": 48, "initializer_range": 0.2},
}
HEADS: dict[HeadFamily, int] = {
    "sequence_classification": 3,
    "token_classification": 3,
    "question_answering": 2,
    "multiple_choice": 1,
}
"""With their numbers of logits."""


@dataclass(frozen=True)
class Sample:
    """One architecture."""

    config: EncoderConfig
    pretraining: str
    """Kind of the class that is pre-trained."""
    weight: str
    """One that is changed, in Hugging Face's name."""
    encoder: str = "encoder"
    """Kind of the encoder alone."""
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    """Of its ONNX files."""
    others: tuple[str, ...] = ()
    """Further kinds."""

    @property
    def kinds(self) -> list[str]:
        return [self.encoder, self.pretraining, *self.others, *HEADS]

    def build(self, kind: Any) -> EncoderModule:
        if kind in HEADS:
            return build_head(self.config, kind, HEADS[kind])
        if kind == self.encoder:
            return architecture_of(self.config).encoder(self.config)
        build = build_discriminator if kind == "replaced_tokens" else build_pretraining
        return build(self.config)


WITH_SEGMENTS = ("input_ids", "attention_mask", "token_type_ids")
MODERN = ModernBertConfig(**SHAPE | {"num_hidden_layers": 4}, local_attention=8)
ELECTRA = ElectraConfig(**SHAPE, embedding_size=20)
ALBERT = AlbertConfig(**SHAPE, embedding_size=20)
SAMPLES = {
    "albert": Sample(
        ALBERT,
        "order_pretraining",
        "albert.encoder.embedding_hidden_mapping_in.weight",
        encoder="pooled_encoder",
        inputs=WITH_SEGMENTS,
    ),
    "deberta": Sample(
        DebertaConfig(**SHAPE, position_buckets=12, max_relative_positions=40, hidden_act="gelu_new"),
        "masked_lm",
        "deberta.encoder.layer.1.attention.self.key_proj.weight",
        others=("replaced_tokens",),
    ),
    "distilbert": Sample(
        DistilBertConfig(**SHAPE, activation="gelu_new"),
        "masked_lm",
        "distilbert.transformer.layer.1.attention.v_lin.weight",
    ),
    "electra": Sample(
        ELECTRA,
        "masked_lm",
        "electra.embeddings_project.weight",
        inputs=WITH_SEGMENTS,
        others=("replaced_tokens",),
    ),
    "modernbert": Sample(MODERN, "masked_lm", "model.layers.2.attn.Wqkv.weight"),
    "roberta": Sample(
        RobertaConfig(**SHAPE | {"vocab_size": 400, "max_position_embeddings": 50}, hidden_act="gelu_new"),
        "masked_lm",
        "roberta.encoder.layer.1.attention.self.value.weight",
        encoder="pooled_encoder",
    ),
}
VARIED = SAMPLES | {
    "albert, two groups": replace(SAMPLES["albert"], config=replace(ALBERT, num_hidden_groups=2)),
    "electra, as wide as the layers": replace(SAMPLES["electra"], config=replace(ELECTRA, embedding_size=32)),
    "modernbert, mean": replace(SAMPLES["modernbert"], config=replace(MODERN, classifier_pooling="mean")),
}


def saved(directory: Path, sample: Sample, kind: str) -> tuple[EncoderModule, Path, Path]:
    """The model with random weights and biases, its directory, and that of its tokenizer."""
    tokens = directory / "tokenizer"
    tokens.mkdir()
    if isinstance(sample.config, RobertaConfig):
        byte_bpe.save_tokenizer(byte_tokenizer(sample.config.vocab_size), tokens)
    else:
        wordpiece.save_tokenizer(tokenizer(sample.config.vocab_size), tokens, lowercase=True)
    torch.manual_seed(1)
    extra = label_names(["a", "b", "c"]) if kind in ("sequence_classification", "token_classification") else {}
    model = sample.build(kind)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    save_pretrained(model, directory / "model", tokens, extra)
    return model, directory / "model", tokens


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, sample in VARIED.items() for kind in sample.kinds])
def test_every_class_passes(name: str, kind: str, tmp_path: Path) -> None:
    model, directory, tokens = saved(tmp_path, VARIED[name], kind)
    said = verify.verify(directory, Expected.of(model), tokens)
    assert said.startswith(f"{directory}: {model.architecture}, ") and "transformers loads it by AutoModel" in said
    assert load_kind(directory) == kind


@pytest.mark.parametrize("name", SAMPLES)
def test_a_changed_weight_is_caught(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    model, directory, tokens = saved(tmp_path, sample, sample.pretraining)
    tensors = load_file(directory / WEIGHTS)
    tensors[sample.weight][3, 4] *= -1
    save_file(tensors, directory / WEIGHTS)
    with pytest.raises(ArtifactError, match="logits: found outputs that differ by"):
        verify.verify(directory, Expected.of(model), tokens)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_gates_fresh_process_accepts_it(name: str, tmp_path: Path) -> None:
    model, directory, tokens = saved(tmp_path, SAMPLES[name], SAMPLES[name].pretraining)
    assert "transformers loads it by AutoModelFor" in gate.check(model, directory, tokens)


def test_a_roberta_has_two_positions_less_and_a_vocabulary_as_its_tokenizers(tmp_path: Path) -> None:
    _, directory, _ = saved(tmp_path, SAMPLES["roberta"], "masked_lm")
    assert transformers.AutoTokenizer.from_pretrained(directory).model_max_length == 48
    vocabulary = directory / "vocab.json"
    vocabulary.write_text(vocabulary.read_text().replace('"<pad>": 1', '"<pads>": 1'))
    with pytest.raises(ArtifactError, match=r"vocab.json: 2 entries are not those of .*tokenizer.json"):
        verify.verify(directory)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in SAMPLES for kind in ("pretraining", "sequence_classification")),
        *((name, "replaced_tokens") for name in ("deberta", "electra")),
        *(("modernbert, mean", kind) for kind in HEADS),  # what differs is the encoder, not its heads
    ],
)
def test_onnx_gives_the_same_for_every_shape(name: str, kind: str, tmp_path: Path) -> None:
    sample = VARIED[name]
    model, directory, _ = saved(tmp_path, sample, sample.pretraining if kind == "pretraining" else kind)
    assert "ONNX Runtime gives equal outputs" in onnx.export(directory, tmp_path / "model.onnx")
    session = onnx.session_of(tmp_path / "model.onnx")
    assert tuple(port.name for port in session.get_inputs()) == sample.inputs
    for lengths in ((1,), (48, 3, 20)):
        probe = Probe.of(model.config, lengths)
        found = onnx.run_onnx(session, model.architecture, probe)
        require_equal(probe.outputs_of(model), found, 1e-4, f"lengths {lengths}")


def test_large_weights_are_no_difference(tmp_path: Path) -> None:
    # Muon makes such weights: float32 rounds the outputs of this model by more than the gate lets pass.
    sample = replace(SAMPLES["modernbert"], config=replace(MODERN, initializer_range=2.0))
    model, directory, tokens = saved(tmp_path, sample, "masked_lm")
    expected = Expected.of(model)
    with torch.no_grad():
        probe = expected.probe
        rounded = model.eval()(probe.input_ids, probe.token_type_ids, probe.layout, probe.masked_positions)[0]
    assert difference(expected.outputs["logits"], rounded) > verify.TOLERANCE
    assert "transformers loads it by AutoModelForMaskedLM" in verify.verify(directory, expected, tokens)
