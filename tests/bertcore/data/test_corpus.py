"""The corpus: what is kept, what is dropped and why, and on which side of the split."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bertcore.data import cleaning
from bertcore.data.corpus import CorpusConfig, build_corpus
from bertcore.data.documents import CorpusWriter, Document, corpus_shards, read_sentences
from bertcore.errors import InputError


def build(tmp_path: Path, texts: list[str], **options: object):
    inputs, output = tmp_path / "inputs", tmp_path / "out"
    (inputs / "0").mkdir(parents=True, exist_ok=True)
    output.mkdir(exist_ok=True)
    (inputs / "0" / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    config = CorpusConfig(sources=[str(inputs / "0" / "t.jsonl")], min_words=3, heldout_fraction=0.3, **options)
    return build_corpus(config, inputs, output).as_metrics(), output


TEXTS = [f"Document number {index} has a first sentence. It has a second one, too." for index in range(40)]


def test_documents_are_split_into_sentences_and_every_drop_is_counted(tmp_path: Path) -> None:
    metrics, output = build(tmp_path, [*TEXTS, TEXTS[0], "too short", "12 34 56 78 90 --- === 12"])
    assert metrics["dropped"] == {
        "exact duplicate": 1,
        "fewer than 3 words": 1,
        "fewer than half of the characters are letters": 1,
    }
    assert metrics["train"]["documents"] + metrics["heldout"]["documents"] == 40
    assert metrics["train"]["sentences"] == 2 * metrics["train"]["documents"]
    rows = [
        row
        for split in ("train", "heldout")
        for path in corpus_shards(output, split)
        for row in pq.read_table(path).to_pylist()
    ]
    assert sorted(row["id"] for row in rows) == sorted(f"t.jsonl:{index}" for index in range(40))
    assert rows[0]["sentences"][1] == "It has a second one, too."


def test_the_split_depends_on_the_seed_and_the_id_alone(tmp_path: Path) -> None:
    config = CorpusConfig(sources=["x"], heldout_fraction=0.2, seed=3)
    sides = [config.split_of(f"doc:{index}") for index in range(5000)]
    assert sides == [config.split_of(f"doc:{index}") for index in range(5000)]
    assert 0.17 < sides.count("heldout") / 5000 < 0.23
    assert sides != [
        CorpusConfig(sources=["x"], heldout_fraction=0.2, seed=4).split_of(f"doc:{i}") for i in range(5000)
    ]


def test_a_document_limit_is_per_source(tmp_path: Path) -> None:
    metrics, _ = build(tmp_path, TEXTS, max_documents=20)
    assert list(metrics["documents_read"].values()) == [20]


def test_an_empty_corpus_is_refused_with_what_was_dropped(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no document for the split 'train' \(2 read, dropped: \{'fewer than 3 words': 2\}\)"
    ):
        build(tmp_path, ["one", "two"])


def test_shards_and_row_groups_bound_the_memory(tmp_path: Path) -> None:
    writer = CorpusWriter(tmp_path, "train", shard_characters=2000, group_characters=500)
    for index in range(100):
        writer.add(Document(str(index), "", "s"), ["x" * 99])
    writer.close()
    shards = corpus_shards(tmp_path, "train")
    assert len(shards) == 5
    batches = list(read_sentences(shards))
    assert sum(map(len, batches)) == 100 and max(map(len, batches)) <= 6


def test_normalisation_removes_what_cannot_be_seen() -> None:
    assert cleaning.normalise("e\u0301tude\u200b  a\x00b\r\n\r\n \tend\ufeff ") == "étude ab\nend"


def test_sentences_of_abbreviations_quotations_and_decimals() -> None:
    text = 'Dr. Smith paid $3.50, e.g. for tea. "Is it hot?" he asked.\nA new paragraph'
    assert cleaning.split_sentences(text, "en") == [
        "Dr. Smith paid $3.50, e.g. for tea.",
        '"Is it hot?" he asked.',
        "A new paragraph",
    ]
