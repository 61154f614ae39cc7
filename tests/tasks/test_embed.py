"""Stage `embed` on a small corpus and an untrained encoder."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from ruamel.yaml import YAML

from bertcore.apply.embed import Embedder
from bertcore.errors import ConfigError
from bertcore.model.bert import BertForPreTraining
from bertcore.model.config import ModelConfig
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer
from tasks import embed
from tasks.paths import CORPUS, EMBEDDING, INPUTS, METRICS, PRETRAINED, TOKENIZER
from tasks.tracking import lineage
from tasks.tracking.runs import StageRun
from tests.samples import documents, sentences, tokenizer, vocabulary, write_corpus
from tests.tasks.recorder import Recorder

SMALL = {"batch_size": 16, "chunk_size": 8, "max_steps": 3, "sequence_length": 24, "dimensions": [8]}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    monkeypatch.setattr(lineage, "stage_paths", lambda *_: ([str(CORPUS), str(PRETRAINED)], [str(EMBEDDING)]))
    for directory in (CORPUS, TOKENIZER):
        directory.mkdir(parents=True)
    for split, seed in (("train", 1), ("heldout", 900)):
        write_corpus(CORPUS, split, documents(20, seed))
    save_tokenizer(tokenizer(), TOKENIZER, lowercase=True)
    torch.manual_seed(1)
    config = ModelConfig(fields={"hidden_size": 32, "num_attention_heads": 2}).build(vocabulary().size)
    save_pretrained(BertForPreTraining(config), PRETRAINED, TOKENIZER)
    return tmp_path


def run(section: dict[str, Any] | None) -> tuple[dict[str, Any], Recorder]:
    with Path("params.yaml").open("w") as file:
        YAML().dump({"recipe": None, "embed": section}, file)
    recorder = Recorder()
    embed.run(cast(StageRun, recorder))
    return json.loads((METRICS / "embed.json").read_text()), recorder


def outputs() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(EMBEDDING.rglob("*")) if path.is_file()}


@pytest.fixture
def without_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the gate does is one test's matter: a process that loads transformers takes seconds."""
    monkeypatch.setattr(embed.gate, "check", lambda *_: "")


def test_what_is_saved_passes_the_gate(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        run({"pairs": "twins", **SMALL, "dimensions": []})
    assert any("models/embedding: BertModel" in record.message for record in caplog.records)


def test_vectors_are_trained_scored_and_saved_twice_the_same(project: Path, without_gate: None) -> None:
    metrics, recorder = run({"pairs": "neighbours", **SMALL})
    assert list(metrics["systems"]) == ["model", "dimension_8", "before", "bm25"] and len(recorder.losses) == 3
    assert metrics["systems"]["model"] != metrics["systems"]["before"] and metrics["dropped_pairs"] > 0
    assert recorder.metrics == metrics["systems"]
    first = outputs()
    assert run({"pairs": "neighbours", **SMALL})[0] == metrics and outputs() == first
    card = (EMBEDDING / "README.md").read_text()
    assert '"sentence-transformers"' in card and "| bm25 | " in card and '"pairs": "neighbours"' in card
    vectors, _ = Embedder.load(EMBEDDING).embed(sentences(3, seed=3))
    assert vectors.shape == (3, 32)


def test_pairs_of_a_file_are_read_from_the_inputs(project: Path, without_gate: None) -> None:
    (INPUTS / "embed").mkdir(parents=True)
    rows = [{"anchor": f"the file {n}", "positive": f"a buffer {n}", "negative": f"every {n}"} for n in range(40)]
    (INPUTS / "embed" / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    metrics, recorder = run({"pairs": "elsewhere/own.jsonl", "heldout_fraction": 0.3, **SMALL})
    assert metrics["pairs"] == "elsewhere/own.jsonl" and len(recorder.losses) == 3
    assert metrics["train_pairs"] + metrics["queries"] == 40 and metrics["queries"] > 4


def test_without_pairs_there_is_nothing(project: Path) -> None:
    for section in (None, {}):
        assert run(section)[0] == {} and EMBEDDING.is_dir() and not list(EMBEDDING.iterdir())


def test_a_width_that_the_encoder_has_not_is_one_line(project: Path) -> None:
    with pytest.raises(ConfigError, match=r"^params\.yaml: embed\.dimensions: found 64, expected less than the 32 "):
        run({"pairs": "neighbours", **SMALL, "dimensions": [64]})
