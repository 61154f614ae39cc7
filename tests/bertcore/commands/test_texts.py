"""Texts from every kind of file, alike; and what is wrong with one, in one line."""

import gzip
from argparse import ArgumentParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertcore.commands.main import main
from bertcore.commands.options import add_input
from bertcore.commands.texts import read, read_file, text_or_file
from bertcore.errors import BAD_INPUT, ConfigError, InputError

TEXTS = ["red, cat", "", "blue \u00e9"]


@pytest.mark.parametrize("ending", ["txt", "csv", "tsv", "jsonl", "parquet", "txt.gz"])
def test_files_hold_the_same_texts(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"in.{ending}"
    match ending:
        case "parquet":
            pq.write_table(pa.table({"text": TEXTS, "n": [1, 2, 3]}), path)
        case "txt.gz":
            path.write_bytes(gzip.compress("\r\n".join([*TEXTS, ""]).encode()))
        case _:
            content = {
                "txt": "\n".join([*TEXTS, ""]),
                "csv": 'n,text\n1,"red, cat"\n2,\n3,blue \u00e9\n',
                "tsv": "n\ttext\n1\tred, cat\n2\t\n3\tblue \u00e9\n",
                "jsonl": '{"text": "red, cat"}\n{"text": ""}\n\n{"text": "blue \u00e9"}\n',
            }[ending]
            path.write_bytes(b"\xef\xbb\xbf" + content.encode())
    assert read_file(path) == TEXTS


@pytest.mark.parametrize("command", ["answer --file", "choose --file", "tag --file", "answer --out x.json --squad"])
def test_a_directory_in_the_place_of_a_file_is_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), str(tmp_path)]) == BAD_INPUT
    said = f"error: {tmp_path}: found a directory, expected a file; name one of those in it\n"
    assert capsys.readouterr().err == said


def test_pairs(tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("a\tb\n1 \t2\n")
    assert read_file(tmp_path / "in.tsv", "a", "b") == [("1 ", "2")]
    (tmp_path / "in.txt").write_text("a\tb\n1\t2\n")
    assert read_file(tmp_path / "in.txt", "a", "b") == [("1", "2")]


def test_a_text_that_is_null_is_empty_as_for_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.jsonl").write_text('{"a": "1", "b": null}\n')
    assert read_file(tmp_path / "in.jsonl", "a", "b") == [("1", "")]
    assert read_file(tmp_path / "in.jsonl", "b", "a") == [("", "1")]
    parser = ArgumentParser()
    add_input(parser)
    pq.write_table(pa.table({"text": ["1", None]}), tmp_path / "in.parquet")  # as pandas writes an empty cell
    assert read(parser.parse_args(["--file", str(tmp_path / "in.parquet")])) == ["1", ""]
    assert "in.parquet: texts without a word: 1 (the first is number 2)" in capsys.readouterr().err


def test_a_table_is_read_as_its_task_was(tmp_path: Path) -> None:
    parser = ArgumentParser()
    add_input(parser)
    (tmp_path / "in.tsv").write_text('1\t"he said ""hi"""\n')
    asked = ["--file", str(tmp_path / "in.tsv"), "--column", "1", "--no-header"]
    assert read(parser.parse_args(asked)) == ['"he said ""hi"""']
    assert read(parser.parse_args([*asked, "--quotes"])) == ['he said "hi"']
    (tmp_path / "in.jsonl").write_text('{"text": "1"}\n')
    with pytest.raises(ConfigError, match=r"--quotes: found True for .jsonl, expected .csv"):
        read(parser.parse_args(["--file", str(tmp_path / "in.jsonl"), "--quotes"]))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("in.txt", b"a\n\xff\n", "in.txt:2: byte 0 of the row is not UTF-8"),
        ("in.csv", b"text,n\na\n", "in.csv:2: found 1 columns, expected 2"),
        ("in.jsonl", b'{"txt": "a"}\n', "in.jsonl:1: found no column 'text'; name it with --column: txt"),
        ("in.jsonl", b'{"text": "a \\ud800"}\n', "in.jsonl:1: found no JSON (half of a surrogate pair)"),
        ("in.jsonl", b'{"text": 1}\n', "in.jsonl:1: text: found 1 (int), expected a text"),
        ("in.jsonl", b"[1]\n", "in.jsonl:1: found a list, expected a JSON object"),
        ("in.parquet", b"abc", "in.parquet: not a Parquet file"),
    ],
)
def test_what_cannot_be_read_is_one_line(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_file(tmp_path / name)
    assert said in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("given", ["page.txt", "texts/page", "page.md.gz", "notes.html"])
def test_a_context_that_can_only_be_the_name_of_a_file_is_no_text(given: str) -> None:
    with pytest.raises(InputError, match="but there is no such file"):
        text_or_file(given)
    assert text_or_file(f"read {given}") == f"read {given}"
