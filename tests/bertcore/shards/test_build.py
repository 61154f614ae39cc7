"""The shards stage's work: boundaries kept, the same bytes on any number of workers, finished work kept and checked."""

import json
import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from bertcore.corpus.documents import SPLITS, corpus_shards, read_sentences
from bertcore.shards import build as sharding
from bertcore.shards.build import build_shards, encode, encode_documents, plan_shards, work_key
from bertcore.shards.encoding import WordEncoder
from bertcore.shards.store import Manifest, ShardsConfig, TokenShard, verify
from bertcore.tokens.wordpiece import make_tokenizer, save_tokenizer
from tests.samples import documents, tokenizer, write_corpus

CONFIG = ShardsConfig(shard_bytes=9000)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a corpus of many small row groups in several files, and a tokenizer."""
    directory = tmp_path_factory.mktemp("corpus")
    for seed, split in enumerate(SPLITS):
        write_corpus(directory, split, documents(120, seed), shard_characters=20_000, group_characters=2_000)
    (directory / "tokenizer").mkdir()
    save_tokenizer(tokenizer(), directory / "tokenizer", lowercase=True)
    return directory


def build(corpus: Path, place: Path, workers: int | None = 1, config: ShardsConfig = CONFIG) -> Manifest:
    output = place / "out"
    output.mkdir(parents=True)
    return build_shards(corpus, corpus / "tokenizer", config, output, place / "work", workers)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_sentences_and_documents_keep_their_boundaries_and_order(corpus: Path, tmp_path: Path) -> None:
    manifest = build(corpus, tmp_path)
    for split in SPLITS:
        texts = [document for batch in read_sentences(corpus_shards(corpus, split)) for document in batch]
        found = []
        for entry in manifest.of_split(split):
            shard = TokenShard.open(tmp_path / "out" / entry.name)
            assert shard.counts == (entry.documents, entry.sentences, entry.tokens)
            bounds = shard.sentence_offsets.tolist()
            sentences = [shard.tokens[start:end].tolist() for start, end in zip(bounds[:-1], bounds[1:], strict=True)]
            places = shard.document_offsets.tolist()
            found += [sentences[start:end] for start, end in zip(places[:-1], places[1:], strict=True)]
        assert found == [[tokenizer().encode(each, add_special_tokens=False).ids for each in text] for text in texts]
        assert len(manifest.of_split(split)) > 3
    verify(tmp_path / "out", manifest)
    assert Manifest.read(tmp_path / "out") == manifest


def test_the_bytes_do_not_depend_on_the_number_of_workers(corpus: Path, tmp_path: Path) -> None:
    for workers in (1, 2, 4):
        build(corpus, tmp_path / str(workers), workers)
    assert contents(tmp_path / "1" / "out") == contents(tmp_path / "2" / "out") == contents(tmp_path / "4" / "out")


def test_sentences_and_documents_without_a_token_are_left_out() -> None:
    blocks = [pa.array([["", "the file"], ["\u200b"]]), pa.array([[""], ["the file", "", "a"]])]
    shard = encode_documents(blocks, WordEncoder(tokenizer()))
    assert shard.document_offsets.tolist() == [0, 1, 3] and shard.sentence_offsets[0] == 0
    assert len(shard.sentence_offsets) == 4 and (shard.sentence_offsets[1:] > shard.sentence_offsets[:-1]).all()


def test_a_sliced_block_is_encoded_from_where_it_begins() -> None:
    texts, encoder = documents(6), WordEncoder(tokenizer())
    whole, part = encode_documents([pa.array(texts[2:5])], encoder), encode_documents([pa.array(texts)[2:5]], encoder)
    assert whole.tokens.tolist() == part.tokens.tolist() and whole.counts == part.counts


def test_a_shard_without_a_document_does_not_enter_the_manifest(tmp_path: Path) -> None:
    for split in SPLITS:
        write_corpus(tmp_path, split, [["the file"], ["\u200b"], ["a buffer"]], group_characters=1)
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer(), tmp_path / "tokenizer", lowercase=True)
    manifest = build(tmp_path, tmp_path / "x", config=ShardsConfig(shard_bytes=1))
    assert [entry.name for entry in manifest.of_split("train")] == ["train-00000.arrow", "train-00002.arrow"]
    verify(tmp_path / "x" / "out", manifest)


class TurnedOffError(Exception):
    """Stands for a power cut."""


def test_finished_shards_are_kept_and_looked_at(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    build(corpus, tmp_path / "whole")
    made: list[str] = []

    def encode_three(plan: sharding.ShardPlan) -> object:
        if len(made) == 3:
            raise TurnedOffError
        made.append(plan.name)
        return encode(plan)

    monkeypatch.setattr(sharding, "encode", encode_three)
    with pytest.raises(TurnedOffError):
        build(corpus, tmp_path / "cut")
    assert list((tmp_path / "cut" / "out").iterdir()) == []

    (work,) = (tmp_path / "cut" / "work").iterdir()
    (work / made[0]).write_bytes((work / made[0]).read_bytes()[:-8])
    (work / made[1]).with_suffix(".json").unlink()
    again: list[str] = []
    monkeypatch.setattr(sharding, "encode", lambda plan: (again.append(plan.name), encode(plan))[1])
    (tmp_path / "cut" / "out").rmdir()
    with caplog.at_level(logging.WARNING):
        manifest = build(corpus, tmp_path / "cut")
    assert set(again) == {entry.name for entry in manifest.shards} - {made[2]}
    assert f"{made[0]} is damaged: it is made again" in caplog.text
    assert contents(tmp_path / "cut" / "out") == contents(tmp_path / "whole" / "out")


def test_a_kill_at_the_end_loses_no_shard(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cut(*_: object) -> None:
        raise TurnedOffError

    with monkeypatch.context() as patched:
        patched.setattr(sharding.Manifest, "write", cut)
        with pytest.raises(TurnedOffError):
            build(corpus, tmp_path)
    shutil.rmtree(tmp_path / "out")
    monkeypatch.setattr(sharding, "encode", cut)
    manifest = build(corpus, tmp_path)
    verify(tmp_path / "out", manifest)
    assert "damaged" not in caplog.text


def test_unfinished_work_of_other_inputs_is_removed(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "work" / "0123456789abcdef").mkdir(parents=True)
    build(corpus, tmp_path)
    assert [path.name for path in (tmp_path / "work").iterdir()] == [work_key(corpus, corpus / "tokenizer", CONFIG)]


def test_the_key_depends_on_params_and_tokenizer(corpus: Path, tmp_path: Path) -> None:
    other = make_tokenizer(tokenizer().get_vocab(), lowercase=False)
    save_tokenizer(other, tmp_path, lowercase=False)
    keys = {
        work_key(corpus, corpus / "tokenizer", CONFIG),
        work_key(corpus, corpus / "tokenizer", ShardsConfig()),
        work_key(corpus, tmp_path, CONFIG),
    }
    assert len(keys) == 3


def test_a_plan_can_be_done_twice_and_leaves_nothing_beside(corpus: Path, tmp_path: Path) -> None:
    plan = plan_shards(corpus, "train", corpus / "tokenizer", CONFIG, tmp_path)[0]
    assert sum(group.size for group in plan.groups[:-1]) < CONFIG.shard_bytes <= sum(each.size for each in plan.groups)
    first, before = encode(plan), contents(tmp_path)
    assert encode(plan) == first and contents(tmp_path) == before
    assert set(before) == {"train-00000.arrow", "train-00000.json"}
    assert json.loads(before["train-00000.json"])["tokens"] == first.tokens


def test_no_shard_holds_two_copies_of_a_document(tmp_path: Path) -> None:
    texts = documents(20)
    for name, used in (("train", texts), ("train-x002", texts), ("train-x003", texts[::2])):
        write_corpus(tmp_path, name, used)
    plans = plan_shards(tmp_path, "train", tmp_path, ShardsConfig(), tmp_path)
    found = [[json.dumps(document) for group in plan.groups for document in group.read().to_pylist()] for plan in plans]
    assert [len(shard) for shard in found] == [20, 20, 10]
    (tmp_path / "linked").mkdir()
    for number, path in enumerate(sorted(tmp_path.glob("*.parquet"))):  # as DVC does where its cache lies elsewhere
        (tmp_path / "linked" / path.name).symlink_to(path.rename(tmp_path / f"{number:032x}"))
    assert len(plan_shards(tmp_path / "linked", "train", tmp_path, ShardsConfig(), tmp_path)) == len(plans)
    assert all(len(set(shard)) == len(shard) for shard in found)


def test_sentences_without_a_token_are_counted(corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for split in SPLITS:
        write_corpus(tmp_path, split, [["the cat", "\u0301 \u0302"], ["\u0301"], ["a red dog"]])
    shutil.copytree(corpus / "tokenizer", tmp_path / "tokenizer")
    manifest = build(tmp_path, tmp_path)
    assert [(each.documents, each.sentences, each.without_tokens) for each in manifest.shards] == [(2, 2, 2)] * 2
    assert "2 sentences of the split train are left out: they hold no token" in caplog.messages
