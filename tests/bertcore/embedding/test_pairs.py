"""Pairs: what belongs together, the same every time, and nothing of what is scored among what is trained on."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertcore.config import parse
from bertcore.corpus.documents import corpus_shards, read_sentences
from bertcore.embedding.config import EmbedConfig
from bertcore.embedding.pairs import Pair, PairSets, read_pair_sets, read_pairs
from bertcore.errors import ConfigError, InputError


def texts(pairs: list[Pair]) -> set[str]:
    return {text for pair in pairs for text in pair.texts}


def documents_of(corpus: Path, split: str) -> list[list[str]]:
    return [document for batch in read_sentences(corpus_shards(corpus, split)) for document in batch]


@pytest.mark.parametrize("kind", ["neighbours", "twins", "title_body"])
def test_held_out_text_is_never_trained_on(corpus: Path, kind: str) -> None:
    found = read_pair_sets(EmbedConfig(pairs=kind), corpus)
    assert found.train and found.heldout and not texts(found.train) & texts(found.heldout)
    trained_on = {text for document in documents_of(corpus, "train") for text in document}
    if kind != "title_body":  # whose bodies are several sentences
        assert texts(found.train) <= trained_on
        assert found.dropped, "the sample's splits share sentences: a test without any could not fail"
    assert read_pair_sets(EmbedConfig(pairs=kind), corpus) == found


def titled(corpus: Path, split: str) -> set[Pair]:
    documents = documents_of(corpus, split)
    return {Pair(each[0], " ".join(" ".join(each[1:]).split()[:60])) for each in documents if len(each) > 1}


def test_each_source_pairs_what_it_says(corpus: Path) -> None:
    def heldout(kind: str) -> set[Pair]:
        return set(read_pair_sets(EmbedConfig(pairs=kind), corpus).heldout)

    documents = documents_of(corpus, "heldout")
    neighbours = {Pair(a, b) for document in documents for a, b in zip(document, document[1:], strict=False) if a != b}
    assert heldout("neighbours") == heldout("twins") == neighbours
    assert heldout("title_body") == titled(corpus, "heldout")
    train = read_pair_sets(EmbedConfig(pairs="twins"), corpus).train
    assert all(pair.anchor == pair.positive for pair in train)


def test_docstrings_have_a_summary_and_a_body_beside_the_documents_of_other_sources(corpus: Path) -> None:
    rows = [
        {
            "document_id": f"pydoc:module{number}",
            "split": split,
            "package": "package",
            "qualname": f"function{number}",
            "parameters": [],
            "docstring": f"Return the number {number} of all things. "
            + f"It is what one would expect of {number}. " * 3,
        }
        for number, split in enumerate(["train"] * 5 + ["heldout"] * 3)
    ]
    pq.write_table(pa.Table.from_pylist(rows), corpus / "docstrings.parquet")
    found = read_pair_sets(EmbedConfig(pairs="title_body"), corpus)
    for split, pairs, numbers in (("heldout", found.heldout, (5, 6, 7)), ("train", found.train, range(5))):
        of_docstrings = {pair for pair in pairs if pair.anchor.endswith("of all things.")}
        assert {pair.anchor for pair in of_docstrings} == {f"Return the number {n} of all things." for n in numbers}
        assert all(pair.positive.startswith("It is what one would expect of") for pair in of_docstrings)
        assert set(pairs) - of_docstrings == titled(corpus, split) or split == "train"
    assert len(found.train) > 5
    shard = corpus_shards(corpus, "heldout")[0]
    documents = pq.read_table(shard)
    pq.write_table(documents.set_column(1, "source", pa.array(["pydoc"] * len(documents))), shard)
    assert len(read_pair_sets(EmbedConfig(pairs="title_body"), corpus).heldout) == 3


def test_a_choice_is_stable(corpus: Path) -> None:
    few = read_pair_sets(EmbedConfig(pairs="neighbours", max_pairs=10, heldout_pairs=7), corpus)
    all_of = read_pair_sets(EmbedConfig(pairs="neighbours", heldout_pairs=7), corpus)
    assert len(few.heldout) == 7 and few.train == all_of.train[:10]


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_files_of_pairs_and_triples(tmp_path: Path) -> None:
    rows = [{"anchor": f"question {n}", "positive": f"answer {n // 2}"} for n in range(200)]
    rows[0]["negative"] = "no answer"
    lines(tmp_path / "a.jsonl", *rows[:100])
    lines(tmp_path / "b.jsonl", *rows[100:], {"anchor": "x", "positive": "y", "negative": ["z", "w"]})
    (tmp_path / "source.txt").write_text("no pairs")
    pairs = list(read_pairs(tmp_path))
    assert len(pairs) == 201 and pairs[0].negatives == ("no answer",) and pairs[-1] == Pair("x", "y", ("z", "w"))
    config = EmbedConfig(pairs="elsewhere", heldout_fraction=0.2)
    found: PairSets = read_pair_sets(config, tmp_path, tmp_path)
    assert not texts(found.train) & texts(found.heldout) and 20 < len(found.heldout) < 60
    assert len(found.train) + len(found.heldout) + found.dropped == 201 and found.dropped


def test_the_only_file_of_a_directory_may_have_any_ending(tmp_path: Path) -> None:
    """As stage `inputs` links a file."""
    lines(tmp_path / "pairs.ndjson", {"anchor": "x", "positive": "y"})
    assert list(read_pairs(tmp_path)) == [Pair("x", "y")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], r"own\.jsonl:1: found list, expected an object with anchor, positive"),
        ({"anchor": "a"}, r"own\.jsonl:1: found anchor, expected an object with anchor, positive"),
        ({"anchor": "a", "positive": ""}, r"own\.jsonl:1: found '', expected a text"),
        ({"anchor": "a", "positive": "b", "negative": [3]}, r"own\.jsonl:1: found 3, expected a text"),
    ],
)
def test_a_line_that_is_no_pair_is_named(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_pairs(lines(tmp_path / "own.jsonl", row)))


def test_too_few_pairs_are_said(tmp_path: Path) -> None:
    file = lines(tmp_path / "own.jsonl", *({"anchor": str(n), "positive": f"{n}!"} for n in range(9)))
    with pytest.raises(InputError, match=r"embed\.pairs: own: found 0 pairs to score, expected at least 2"):
        read_pair_sets(EmbedConfig(pairs="own", heldout_fraction=1e-9), tmp_path, file)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"batch_size": 1}, "batch_size: found 1, expected at least 2"),
        ({"temperature": 0.0}, "temperature: found 0"),
        ({"schedule": "wsd", "warmup_ratio": 0.9}, "warmup_ratio: found 0.9 with schedule wsd"),
        ({"dimensions": [8, 8]}, r"dimensions: found \[8, 8\], expected different widths"),
        ({"pairs": "twins", "dropout": 0.0}, "dropout: found 0 with pairs: twins"),
        ({"heldout_fraction": 1.0}, "heldout_fraction: found 1.0"),
        ({"pairs": "p.jsonl", "heldout_fraction": 0}, "heldout_fraction: found 0 with pairs of a file"),
        ({"heldout_pairs": 1}, "heldout_pairs: found 1, expected at least 2"),
        ({"max_steps": 0}, "max_steps: found 0"),
        ({"sequence_length": 3}, "sequence_length: found 3"),
        ({"batchsize": 8}, "unknown key 'batchsize'; did you mean 'batch_size'"),
    ],
)
def test_a_section_that_cannot_work_is_one_line(section: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(EmbedConfig, section, "params.yaml: embed")
