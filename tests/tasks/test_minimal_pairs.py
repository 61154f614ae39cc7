"""Stage `minimal_pairs` on a small corpus, its shards and an untrained encoder."""

import json
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
import torch
from ruamel.yaml import YAML

from bertcore.files import checksum
from bertcore.model.bert import BertForPreTraining
from bertcore.model.config import ModelConfig
from bertcore.model.huggingface import save_pretrained
from bertcore.shards.build import encode_documents
from bertcore.shards.encoding import WordEncoder
from bertcore.shards.store import Manifest, ShardEntry
from bertcore.tokens.wordpiece import save_tokenizer
from tasks import minimal_pairs
from tasks.paths import CORPUS, INPUTS, METRICS, PREDICTIONS, PRETRAINED, SHARDS, TEXT, TOKENIZER
from tasks.tracking.runs import StageRun
from tests.samples import sentences, tokenizer, vocabulary, write_corpus
from tests.tasks.recorder import Recorder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for directory in (CORPUS, SHARDS, TOKENIZER, INPUTS):
        directory.mkdir(parents=True)
    TEXT.write_text('{"language": "en", "sources": ["texts/"]}')
    texts = {"train": sentences(400, seed=1), "heldout": [f"Now {text}" for text in sentences(200, seed=2)]}
    for split, part in texts.items():
        write_corpus(CORPUS, split, [part])
    shard = encode_documents([pa.array([texts["train"]])], WordEncoder(tokenizer()))
    shard.write(SHARDS / "train-00000.arrow")
    entry = ShardEntry("train-00000.arrow", "train", *shard.counts, checksum(SHARDS / "train-00000.arrow"))
    Manifest(vocabulary().size, "", [entry]).write(SHARDS)
    save_tokenizer(tokenizer(), TOKENIZER, lowercase=True)
    torch.manual_seed(1)
    save_pretrained(BertForPreTraining(ModelConfig(preset="tiny").build(vocabulary().size)), PRETRAINED, TOKENIZER)
    return tmp_path


def run(**section: Any) -> dict[str, Any]:
    with Path("params.yaml").open("w") as file:
        YAML().dump({"recipe": None, "minimal_pairs": section}, file)
    recorder = Recorder()
    minimal_pairs.run(cast(StageRun, recorder))
    found: dict[str, Any] = json.loads((METRICS / "minimal_pairs.json").read_text())
    assert found == json.loads(json.dumps(recorder.metrics))
    return found


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (PREDICTIONS / "minimal_pairs" / "scores.jsonl").read_text().splitlines()]


def test_the_corpus_gives_the_pairs_and_the_same_bytes_again(project: Path) -> None:
    metrics = run(pairs="corpus")
    first = {path: path.read_bytes() for path in (PREDICTIONS / "minimal_pairs").iterdir()}
    assert metrics["pairs"] == len(rows()) > 0
    assert metrics["accuracy"] == metrics["systems"]["model"]["accuracy"]
    assert list(metrics["systems"]) == ["model", "trigram", "bigram", "unigram", "length"]
    assert metrics["phenomena"].keys() == {row["phenomenon"] for row in rows()}
    assert run(pairs="corpus") == metrics
    assert {path: path.read_bytes() for path in (PREDICTIONS / "minimal_pairs").iterdir()} == first


def test_files_are_read_from_the_inputs(project: Path) -> None:
    for index, kind in enumerate(("order", "order", "number")):
        (INPUTS / "minimal_pairs" / str(index)).mkdir(parents=True)
        row = {"good": f"the parser reads the file {index}", "bad": f"the parser the reads file {index}", "kind": kind}
        (INPUTS / "minimal_pairs" / str(index) / "own.jsonl").write_text(json.dumps(row) + "\n")
    metrics = run(pairs=["a.jsonl", "b.jsonl", "c.jsonl"], variant="within_word_l2r")
    assert (metrics["pairs"], metrics["variant"]) == (3, "within_word_l2r")
    assert {name: row["pairs"] for name, row in metrics["paradigms"].items()} == {"order": 2, "number": 1}
    assert metrics["systems"]["unigram"]["ties"] == 3 and metrics["systems"]["bigram"]["accuracy"] == 1.0
    assert metrics["systems"]["trigram"]["accuracy"] == 1.0
    for row in rows():
        assert row["scores"]["length"] == [-len(tokenizer().encode(row["good"], add_special_tokens=False))] * 2
    assert run(pairs=["a.jsonl", "b.jsonl", "c.jsonl"], share=0.5)["pairs"] == 2


def test_without_pairs_there_is_nothing_to_score(project: Path) -> None:
    assert run(pairs=None) == {} and rows() == []
