"""A saved DistilBERT of every class passes the gate's checks, in transformers too, and a changed one does not."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertcore.errors import ArtifactError
from bertcore.export import gate, onnx, verify
from bertcore.export.probe import Expected, Probe, require_equal
from bertcore.finetune.family import label_names
from bertcore.model.config import build_head, build_pretraining
from bertcore.model.distilbert import DistilBertConfig, DistilBertModel
from bertcore.model.huggingface import WEIGHTS, save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer
from tests.samples import tokenizer

CONFIG = DistilBertConfig(
    vocab_size=120,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=48,
    max_position_embeddings=48,
    activation="gelu_new",
    initializer_range=0.2,
)


def saved(directory: Path, kind: Any) -> tuple[Any, Path, Path]:
    """The model, its directory, and that of its tokenizer."""
    (directory / "tokenizer").mkdir()
    save_tokenizer(tokenizer(120), directory / "tokenizer", lowercase=True)
    torch.manual_seed(1)
    extra = label_names(["a", "b", "c"]) if kind in ("sequence_classification", "token_classification") else {}
    builders = {"encoder": DistilBertModel, "masked_lm": build_pretraining}
    model = builders[kind](CONFIG) if kind in builders else build_head(CONFIG, kind, 3 if extra else 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    save_pretrained(model, directory / "model", directory / "tokenizer", extra)
    return model, directory / "model", directory / "tokenizer"


@pytest.mark.parametrize(
    "kind", ["encoder", "masked_lm", "sequence_classification", "token_classification", "question_answering"]
)
def test_every_class_passes(kind: str, tmp_path: Path) -> None:
    model, directory, tokens = saved(tmp_path, kind)
    said = verify.verify(directory, Expected.of(model), tokens)
    assert said.startswith(f"{directory}: {model.architecture}, ") and "transformers loads it by AutoModel" in said


def test_the_gate_accepts_it_in_a_fresh_process_and_a_changed_weight_is_caught(tmp_path: Path) -> None:
    model, directory, tokens = saved(tmp_path, "masked_lm")
    assert gate.check(model, directory, tokens).endswith("loads it by AutoModelForMaskedLM, AutoTokenizer")
    tensors = load_file(directory / WEIGHTS)
    tensors["distilbert.transformer.layer.1.attention.v_lin.weight"][3, 4] *= -1
    save_file(tensors, directory / WEIGHTS)
    with pytest.raises(ArtifactError, match="logits: found outputs that differ by"):
        verify.verify(directory, Expected.of(model), tokens)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["masked_lm", "sequence_classification"])
def test_onnx_gives_the_same_for_every_shape(kind: str, tmp_path: Path) -> None:
    model, directory, _ = saved(tmp_path, kind)
    assert "ONNX Runtime gives equal outputs" in onnx.export(directory, tmp_path / "model.onnx")
    session = onnx.session_of(tmp_path / "model.onnx")
    assert [port.name for port in session.get_inputs()] == ["input_ids", "attention_mask"]
    for lengths in ((1,), (48, 3, 20)):
        probe = Probe.of(model.config, lengths)
        found = onnx.run_onnx(session, model.architecture, probe)
        require_equal(probe.outputs_of(model), found, 1e-4, f"lengths {lengths}")
