"""A saved ModernBERT of every class passes the gate's checks, in transformers too, and a changed one does not."""

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
from bertcore.model.huggingface import WEIGHTS, save_pretrained
from bertcore.model.modernbert import ModernBertConfig, ModernBertModel
from bertcore.tokens.wordpiece import save_tokenizer
from tests.samples import tokenizer

CONFIG: dict[str, Any] = {
    **{"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2},
    **{"intermediate_size": 24, "max_position_embeddings": 48, "local_attention": 8, "initializer_range": 0.2},
}


def saved(directory: Path, kind: str, **changes: Any) -> tuple[Any, Path, Path]:
    """The model, its directory, and that of its tokenizer."""
    (directory / "tokenizer").mkdir()
    save_tokenizer(tokenizer(120), directory / "tokenizer", lowercase=True)
    torch.manual_seed(1)
    config, extra = ModernBertConfig(**CONFIG | changes), {}
    if kind in ("sequence_classification", "token_classification"):
        extra = label_names(["a", "b", "c"])
    builders = {"encoder": ModernBertModel, "masked_lm": build_pretraining}
    model = builders[kind](config) if kind in builders else build_head(config, kind, len(extra.get("id2label", "ab")))  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    save_pretrained(model, directory / "model", directory / "tokenizer", extra)
    return model, directory / "model", directory / "tokenizer"


@pytest.mark.parametrize(
    "kind", ["encoder", "masked_lm", "sequence_classification", "token_classification", "question_answering"]
)
def test_every_class_passes(kind: str, tmp_path: Path) -> None:
    model, directory, tokens = saved(tmp_path, kind, classifier_pooling="mean")
    said = verify.verify(directory, Expected.of(model), tokens)
    assert said.startswith(f"{directory}: {model.architecture}, ") and "transformers loads it by AutoModel" in said


def test_the_gate_accepts_it_in_a_fresh_process_and_a_changed_weight_is_caught(tmp_path: Path) -> None:
    model, directory, tokens = saved(tmp_path, "masked_lm")
    assert gate.check(model, directory, tokens).endswith("loads it by AutoModelForMaskedLM, AutoTokenizer")
    tensors = load_file(directory / WEIGHTS)
    tensors["model.layers.2.attn.Wqkv.weight"][3, 4] *= -1
    save_file(tensors, directory / WEIGHTS)
    with pytest.raises(ArtifactError, match="logits: found outputs that differ by"):
        verify.verify(directory, Expected.of(model), tokens)


@pytest.mark.slow
def test_onnx_gives_the_same_for_windows_and_padding(tmp_path: Path) -> None:
    model, directory, _ = saved(tmp_path, "sequence_classification", classifier_pooling="mean")
    assert "ONNX Runtime gives equal outputs" in onnx.export(directory, tmp_path / "model.onnx")
    session = onnx.session_of(tmp_path / "model.onnx")
    assert [port.name for port in session.get_inputs()] == ["input_ids", "attention_mask"]
    for lengths in ((1,), (48, 3, 20)):
        probe = Probe.of(model.config, lengths)
        found = onnx.run_onnx(session, model.architecture, probe)
        require_equal(probe.outputs_of(model), found, 1e-4, f"lengths {lengths}")
