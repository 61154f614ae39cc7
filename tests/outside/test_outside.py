"""What is added from outside of the package trains, resumes, passes the gate and is fine-tuned like the rest."""

import importlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from bertcore.errors import ArtifactError
from bertcore.examples.schema import ExampleSet, schema_of
from bertcore.export import gate
from bertcore.export.padded import PADDED
from bertcore.finetune.config import RunConfig
from bertcore.finetune.run import Finetuning
from bertcore.instances.sources import MaskConfig
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.tokens.wordpiece import save_tokenizer
from bertcore.training.config import PretrainConfig
from bertcore.training.loop import Pretraining
from tests.samples import sentences, tokenizer, vocabulary
from tests.small import assert_resumes, small_training

TABLES: tuple[dict[str, Any], ...] = (ARCHITECTURES, PADDED, OBJECTIVES)


@pytest.fixture(autouse=True)
def imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both files add their rows when they are imported; other tests see none of them."""
    before = [dict(table) for table in TABLES]
    for name in ("toy_architecture", "toy_objective"):
        monkeypatch.delitem(sys.modules, f"tests.outside.{name}", raising=False)
        importlib.import_module(f"tests.outside.{name}")
    yield
    for table, rows in zip(TABLES, before, strict=True):
        table.clear()
        table.update(rows)


def training(directory: Path) -> Pretraining:
    settings = PretrainConfig(
        model=ModelConfig(architecture="toy", fields={"initializer_range": 0.2}),
        **{"objective": "twins", "objective_options": {"twin_weight": 0.25}, "optimizer": "muon"},  # type: ignore[arg-type]
        **{"batch_size": 8, "max_steps": 20, "warmup_steps": 2, "learning_rate": 5e-3, "eval_steps": 10},  # type: ignore[arg-type]
    )
    mask = MaskConfig(sequence_length=48, max_predictions_per_seq=8)
    return small_training(directory, settings, mask)


def test_it_trains_resumes_passes_the_gate_and_is_fine_tuned(tmp_path: Path) -> None:
    whole = training(tmp_path / "whole")
    before = whole.evaluate()
    after = whole.run()
    for term in ("first", "twin"):
        assert after[f"eval/{term}_loss"] < before[f"eval/{term}_loss"] - 0.05
    assert after["eval/loss"] == pytest.approx(after["eval/first_loss"] + 0.25 * after["eval/twin_loss"])

    assert_resumes(partial(training, tmp_path / "stopped"), whole, after=7)
    assert any(name.startswith("objective.twin.") for name in whole._trained.state_dict())

    with_tokenizer = saved_tokenizer(tmp_path)
    save_pretrained(whole.model, tmp_path / "model", with_tokenizer)
    said = gate.check(whole.model, tmp_path / "model", with_tokenizer)
    assert "ToyForMaskedLM, " in said and said.endswith("transformers loads it by AutoTokenizer")

    task = RunConfig(format="toy", data="toy", sequence_length=16, epochs=8, batch_size=8, learning_rate=2e-2)
    result = Finetuning(task, examples(), tokenizer()).run(tmp_path / "model")
    losses = [row["train/loss"] for row in result.curves if "train/loss" in row]
    assert losses[-1] < losses[0] / 2 and result.metrics["dev"]["accuracy"] >= 0.9
    result.save_model(tmp_path / "finetuned", with_tokenizer)
    assert "ToyForSequenceClassification, " in gate.check(result.model, tmp_path / "finetuned", with_tokenizer)


def test_the_gate_rejects_one_whose_weights_are_others(tmp_path: Path) -> None:
    model = build_pretraining(ModelConfig(architecture="toy").build(vocabulary().size))
    save_pretrained(model, tmp_path / "model", saved_tokenizer(tmp_path))
    with torch.no_grad():
        model.base_model.layers[1].attention.qkv.weight += 1.0  # type: ignore[union-attr, operator]
    with pytest.raises(ArtifactError, match="logits: found outputs that differ by"):
        gate.check(model, tmp_path / "model")


def saved_tokenizer(directory: Path) -> Path:
    (directory / "tokenizer").mkdir()
    save_tokenizer(tokenizer(), directory / "tokenizer", lowercase=True)
    return directory / "tokenizer"


def examples() -> ExampleSet:
    """Does the sentence begin with a parser?"""
    texts = sentences(160, 1)
    labels = ["yes" if "parser" in text else "no" for text in texts]
    columns = {"id": [str(row) for row in range(len(texts))], "text_a": texts, "text_b": [None] * 160, "label": labels}
    table = pa.table(columns, schema=schema_of("classification", ["no", "yes"]))
    splits = {"train": table.slice(0, 128), "dev": table.slice(128)}
    return ExampleSet(family="classification", labels=["no", "yes"], metrics=["accuracy"], splits=splits)
