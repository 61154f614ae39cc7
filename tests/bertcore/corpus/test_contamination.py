"""N-grams of evaluation texts in other texts, against a plain search; the files that such texts come in."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcore.config import parse
from bertcore.corpus.contamination import ContaminationConfig, Ngrams, evaluation_texts
from bertcore.errors import ConfigError, InputError
from tests.packing import pack

TEXTS = st.lists(st.lists(st.sampled_from("aábc"), max_size=12).map(" ".join), max_size=8)


def plain(text: str, ngram: int) -> set[tuple[str, ...]]:
    words = re.findall(r"[^\W_]+", text.lower())
    return {tuple(words[at : at + ngram]) for at in range(len(words) - ngram + 1)}


@settings(max_examples=200, deadline=None)
@given(evaluation=TEXTS, corpus=TEXTS)
def test_shared_ngrams_are_those_of_a_plain_search(evaluation: list[str], corpus: list[str]) -> None:
    ngrams = Ngrams(evaluation, 3)
    wanted = [plain(text, 3) for text in evaluation]
    here = [plain(text, 3) for text in corpus]
    assert ngrams.meet(corpus).tolist() == [any(each & theirs for theirs in wanted) for each in here]
    assert ngrams.long_enough.tolist() == [bool(each) for each in wanted]
    assert ngrams.met.tolist() == [any(each & mine for mine in here) for each in wanted]


def test_case_punctuation_and_layout_make_no_difference() -> None:
    ngrams = Ngrams(["The reader -- it closes\tthe file!"], 6)
    assert ngrams.meet(["so the READER (it)\ncloses 'the' file again", "the reader it closes a file"]).tolist() == [
        True,
        False,
    ]


def test_no_ngram_spans_two_texts() -> None:
    ngrams = Ngrams(["a b", "c d", "b c d e"], 4)
    assert not ngrams.meet(["x a b", "c d y", "b c", "d e"]).any()


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_texts_of_every_layout(tmp_path: Path, packed: str) -> None:
    files = {
        "a.tsv": b"1\tthe first\n2\tthe second\n",
        "a.csv": b'1,"the first, quoted"\n',
        "a.txt": "caf\u00e9\nat the corner\n \n\nanother\n".encode("utf-8-sig"),
        "b.txt": b"EU B-ORG\nrejects O\n\nPeter B-PER\n",
        "b.tsv": b"EU\tB-ORG\nrejects\tO\n\nPeter\tB-PER\n",
        "a.conll": b"EU B-ORG\n# O\nrejects O\n\nPeter B-PER\n",
        "b.conll": b"# text = It ends.\n1\tIt\tit\n2-3\tends\tend\n\n1\tHere\there\n",
        "a.json": json.dumps({"data": [{"q": "who?", "n": 3}, ["x"]]}).encode(),
        "a.jsonl": b'{"text": "one"}\n\n  \n{"text": ["two", null]}\n',
        "b.json": b'{"text": "one"}\n{"text": "two"}\n',
        "c.json": b'[\n{"text": "one"}\n]\n',
    }
    found = {name: list(evaluation_texts(pack(tmp_path / (name + packed), data))) for name, data in files.items()}
    assert found == {
        "a.tsv": ["1", "the first", "2", "the second"],
        "a.csv": ["1", "the first, quoted"],
        "a.txt": ["caf\u00e9\nat the corner", "another"],
        "b.txt": ["EU\nrejects", "Peter"],
        "b.tsv": ["EU\nrejects", "Peter"],
        "a.conll": ["EU\n#\nrejects", "Peter"],
        "b.conll": ["It\nends", "Here"],
        "a.json": ["who?", "x"],
        "a.jsonl": ["one", "two"],
        "b.json": ["one", "two"],
        "c.json": ["one"],
    }


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_parquet(tmp_path: Path, packed: str) -> None:
    pq.write_table(pa.table({"words": [["a", "b"]], "n": [1]}), tmp_path / "plain")
    path = pack(tmp_path / f"a.parquet{packed}", (tmp_path / "plain").read_bytes())
    assert list(evaluation_texts(path)) == ["a", "b"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\ntwo", encoding="utf-16")
    with pytest.raises(InputError, match=r"a.tsv:1: not UTF-8; convert"):
        list(evaluation_texts(tmp_path / "a.tsv"))
    (tmp_path / "b.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match=r"b.parquet: damaged"):
        list(evaluation_texts(tmp_path / "b.parquet"))
    (tmp_path / "b.jsonl").write_text('{"a": 1}\n{')
    with pytest.raises(InputError, match=r"b.jsonl:2: not JSON"):
        list(evaluation_texts(tmp_path / "b.jsonl"))
    with pytest.raises(InputError, match=r"c.doc: unknown ending, expected .txt, .conll, .tsv"):
        evaluation_texts(tmp_path / "c.doc")


def test_cells_of_several_lines_and_of_any_length(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('1,"one\ntwo"\n2,' + "x" * 200_000 + "\n")
    assert list(evaluation_texts(tmp_path / "a.csv")) == ["1", "one\ntwo", "2", "x" * 200_000]
    (tmp_path / "b.csv").write_bytes(b"1,fine\n2,a\rb\n")
    with pytest.raises(InputError, match=r"b.csv:2: not CSV \(new-line character"):
        list(evaluation_texts(tmp_path / "b.csv"))


def test_what_json_can_say_and_utf8_cannot(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one \\ud83d two"}\n')
    texts = list(evaluation_texts(tmp_path / "a.jsonl"))
    assert texts == ["one ? two"] and Ngrams(texts, 2).meet(["one two"]).tolist() == [True]
    (tmp_path / "b.jsonl").write_text("9" * 5000)
    with pytest.raises(InputError, match=r"b.jsonl:1: not JSON \(Exceeds the limit"):
        list(evaluation_texts(tmp_path / "b.jsonl"))


def test_only_local_files_are_read() -> None:
    with pytest.raises(ConfigError, match=r"c.texts: found hf://rajpurkar/squad, expected a local file; download it"):
        parse(ContaminationConfig, {"texts": ["dev.tsv", "hf://rajpurkar/squad"]}, "c")
