"""A saved ALBERT of every class passes the gate's checks, in transformers too, and a changed one does not."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertcore.errors import ArtifactError
from bertcore.export import onnx, verify
from bertcore.export.probe import Expected, Probe, require_equal
from bertcore.finetune.family import label_names
from bertcore.model.albert import AlbertConfig, AlbertModel
from bertcore.model.config import build_head, build_pretraining
from bertcore.model.huggingface import WEIGHTS, load_kind, save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer
from tests.samples import tokenizer

CONFIG: dict[str, Any] = {
    **{"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "embedding_size": 20},
    **{"intermediate_size": 24, "max_position_embeddings": 48, "initializer_range": 0.2},
}
BUILDERS: dict[str, Any] = {
    "pooled_encoder": AlbertModel,
    "order_pretraining": build_pretraining,
}


def saved(directory: Path, kind: Any, **changes: Any) -> tuple[Any, Path, Path]:
    """The model, its directory, and that of its tokenizer."""
    (directory / "tokenizer").mkdir()
    save_tokenizer(tokenizer(120), directory / "tokenizer", lowercase=True)
    torch.manual_seed(1)
    config = AlbertConfig(**CONFIG | changes)
    extra = label_names(["a", "b", "c"]) if kind in ("sequence_classification", "token_classification") else {}
    model = BUILDERS[kind](config) if kind in BUILDERS else build_head(config, kind, 3 if extra else 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    save_pretrained(model, directory / "model", directory / "tokenizer", extra)
    return model, directory / "model", directory / "tokenizer"


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kind", [*BUILDERS, "sequence_classification", "token_classification", "question_answering"])
def test_every_class_passes(kind: str, groups: int, tmp_path: Path) -> None:
    model, directory, tokens = saved(tmp_path, kind, num_hidden_groups=groups)
    said = verify.verify(directory, Expected.of(model), tokens)
    assert said.startswith(f"{directory}: {model.architecture}, ") and "transformers loads it by AutoModel" in said
    assert load_kind(directory) == kind


def test_a_changed_weight_is_caught(tmp_path: Path) -> None:
    model, directory, _ = saved(tmp_path, "order_pretraining")
    tensors = load_file(directory / WEIGHTS)
    tensors["albert.encoder.embedding_hidden_mapping_in.weight"][3, 4] *= -1
    save_file(tensors, directory / WEIGHTS)
    with pytest.raises(ArtifactError, match="prediction_logits: found outputs that differ by"):
        verify.verify(directory, Expected.of(model))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["order_pretraining", "sequence_classification"])
def test_onnx_gives_the_same(kind: str, tmp_path: Path) -> None:
    model, directory, _ = saved(tmp_path, kind)
    assert "ONNX Runtime gives equal outputs" in onnx.export(directory, tmp_path / "model.onnx")
    session = onnx.session_of(tmp_path / "model.onnx")
    for lengths in ((1,), (48, 3, 20)):
        probe = Probe.of(model.config, lengths)
        require_equal(probe.outputs_of(model), onnx.run_onnx(session, model.architecture, probe), 1e-4, f"{lengths}")
