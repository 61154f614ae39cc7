"""What ONNX Runtime computes from the exported file is what the model in memory computes without padding."""

import importlib.util
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT, ArtifactError, ConfigError
from bertcore.export import onnx as exporter
from bertcore.export.directory import Saved, read_model
from bertcore.export.kinds import outputs_of_class
from bertcore.export.probe import Probe, require_equal
from tests.bertcore.export.conftest import Example
from tests.import_closure import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["BertForPreTraining", "BertForSequenceClassification"])
def test_outputs_are_equal_for_every_shape(architecture: str, examples: dict[str, Example], tmp_path: Path) -> None:
    example, path = examples[architecture], tmp_path / "out" / "model.onnx"
    said = exporter.export(example.directory, path)
    assert said.startswith(f"{path}: {architecture} of {example.directory}, opset 18, {path.stat().st_size:,} bytes; ")
    assert [found.name for found in path.parent.iterdir()] == ["model.onnx"]
    session: Any = onnxruntime.InferenceSession(path)
    assert [(port.name, port.type, port.shape) for port in session.get_inputs()] == [
        (name, "tensor(int64)", ["batch", "sequence"]) for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    assert [port.name for port in session.get_outputs()] == list(outputs_of_class(architecture, "here"))
    assert all(port.shape[0] == "batch" for port in session.get_outputs())
    for lengths in ((1,), (24,), (1, 1), (7, 24, 3, 11, 2)):
        probe = Probe.of(example.model.config, lengths)
        found = exporter.run_onnx(session, architecture, probe)
        require_equal(probe.outputs_of(example.model), found, 1e-4, f"lengths {lengths}")
    assert str(ROOT).encode() not in path.read_bytes()
    assert onnx.load(path).opset_import[0].version == 18


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["BertForSequenceClassification", "BertForQuestionAnswering"])
def test_int8_is_smaller_and_points_the_same_way(
    architecture: str, examples: dict[str, Example], tmp_path: Path
) -> None:
    example, path = examples[architecture], tmp_path / "int8.onnx"
    exporter.export(example.directory, tmp_path / "float32.onnx")
    said = exporter.export(example.directory, path, int8=True)
    assert "; int8; outputs point where those in float32 do (cosine 0." in said
    assert sorted(found.name for found in tmp_path.iterdir()) == ["float32.onnx", "int8.onnx"]
    assert path.stat().st_size < (tmp_path / "float32.onnx").stat().st_size
    stored = {tensor.data_type for tensor in onnx.load(path).graph.initializer if len(tensor.dims) == 2}
    assert onnx.TensorProto.INT8 in stored
    probe = Probe.of(example.model.config, (7, 24, 3))
    found = exporter.run_onnx(exporter.session_of(path), architecture, probe)
    for name, expected in probe.outputs_of(example.model).items():
        assert float(torch.cosine_similarity(expected.flatten(), found[name].flatten(), dim=0)) > exporter.DIRECTION


def test_an_int8_that_points_elsewhere_is_not_put_in_place(
    examples: dict[str, Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "DIRECTION", 1.01)
    with pytest.raises(ArtifactError, match=r"found a cosine of .* expected at least 1.01; convert it without"):
        exporter.export(examples["BertForTokenClassification"].directory, tmp_path / "a.onnx", int8=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_computes_something_else_is_not_put_in_place(
    examples: dict[str, Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example, path = examples["BertForQuestionAnswering"], tmp_path / "model.onnx"
    path.write_text("old")
    write = exporter._write

    def write_another(saved: Saved, model: nn.Module, path: Path) -> None:
        """As if the exporter had lost a sign."""
        another = read_model(saved)
        another.qa_outputs.weight.data.neg_()
        write(saved, another, path)

    monkeypatch.setattr(exporter, "_write", write_another)
    with pytest.raises(ArtifactError, match=rf"ONNX of {example.directory}, lengths \(1,\): start_logits: found out"):
        exporter.export(example.directory, path)
    assert path.read_text() == "old" and [found.name for found in tmp_path.iterdir()] == ["model.onnx"]


def test_errors_are_one_line_with_the_remedy(
    examples: dict[str, Example],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = examples["BertModel"].directory
    assert main(["convert", str(tmp_path / "none"), str(tmp_path / "a.onnx")]) == BAD_INPUT
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}/none/config.json: not found")
    with pytest.raises(ConfigError, match="found a directory, expected the name of a file"):
        exporter.export(directory, tmp_path)
    with pytest.raises(ConfigError, match=r"found a name that does not end in .onnx; say .*/README.onnx$"):
        exporter.export(directory, directory / "README.md")
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else real(name))
    with pytest.raises(ConfigError, match=rf"^onnxruntime: not installed, .* run `make onnx MODEL={directory}`, or"):
        exporter.export(directory, tmp_path / "a.onnx")


def test_the_lock_names_versions_that_the_tests_run_with() -> None:
    lock, tests = ((ROOT / f"requirements-{name}.lock").read_text().splitlines() for name in ("onnx", "dev"))
    assert {line.split("==")[0] for line in lock} >= set(exporter.PACKAGES) and set(lock) <= set(tests)
