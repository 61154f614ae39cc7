"""The files that evaluation texts come in."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertcore.corpus.contamination import EvaluationNgrams
from bertcore.corpus.evaluation_texts import evaluation_texts
from bertcore.errors import InputError
from tests.packing import pack


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
    assert texts == ["one ? two"] and EvaluationNgrams(texts, 2).meet(["one two"]).tolist() == [True]
    (tmp_path / "b.jsonl").write_text("9" * 5000)
    with pytest.raises(InputError, match=r"b.jsonl:1: not JSON \(Exceeds the limit"):
        list(evaluation_texts(tmp_path / "b.jsonl"))
