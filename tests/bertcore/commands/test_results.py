"""Where results go, and that nothing half-written is left there."""

import argparse
import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bertcore.commands.results import Record, check_output, write
from bertcore.errors import ConfigError, InputError
from bertcore.examples.bad_rows import BadRowError
from bertcore.examples.table_rows import TextLayout, read_rows

RECORDS = [{"text": "a\tb", "score": 0.1, "best": [{"x": 1}, {"x": 2}]}, {"text": "é", "score": 1e-07, "best": []}]


def options(out: Path | None = None, shown: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(out=out, format=shown)


def flatten(record: Record) -> Iterator[Record]:
    yield from ({"text": record["text"], "score": record["score"], **each} for each in record["best"])


def test_each_kind_of_file(tmp_path: Path) -> None:
    for ending in ("jsonl", "csv", "tsv", "parquet"):
        write(options(tmp_path / f"out.{ending}"), RECORDS, flatten)
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == RECORDS
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == RECORDS
    assert (tmp_path / "out.csv").read_text() == "text,score,x\na\tb,0.1,1\na\tb,0.1,2\n"
    assert (tmp_path / "out.tsv").read_text() == "text\tscore\tx\na b\t0.1\t1\na b\t0.1\t2\n"
    write(options(tmp_path / "whole.csv"), RECORDS)
    assert (tmp_path / "whole.csv").read_text().splitlines()[2] == "é,1e-07,[]"


def test_what_is_written_as_tsv_is_read_as_it_was(tmp_path: Path) -> None:
    texts = ['he said "hi"', '"', "two\r\nlines and a\ttab", '""quoted""']
    write(options(tmp_path / "out.tsv"), [{"text": text, "score": 1.0} for text in texts])
    rows = [dict(row) for _, row in read_rows(tmp_path / "out.tsv", TextLayout()) if not isinstance(row, BadRowError)]
    expected = [*texts[:2], "two  lines and a tab", texts[3]]
    assert rows == [{"text": text, "score": "1.0"} for text in expected]


def test_a_carriage_return_in_a_text_ends_no_row_of_csv(tmp_path: Path) -> None:
    texts = ["one\rtwo", "three\r\nfour", 'plain "text"']
    write(options(tmp_path / "out.csv"), [{"text": text, "score": 1.0} for text in texts])
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        assert [row["text"] for row in csv.DictReader(file)] == texts


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    def failing() -> Iterator[Record]:
        yield RECORDS[0]
        raise InputError("no more")

    (tmp_path / "out.jsonl").write_text("before")
    with pytest.raises(InputError, match="no more"):
        write(options(tmp_path / "out.jsonl"), failing())
    assert (tmp_path / "out.jsonl").read_text() == "before" and len(list(tmp_path.iterdir())) == 1


def test_another_ending_is_refused_before_any_work() -> None:
    with pytest.raises(ConfigError, match=r"--out: found 'a.doc', expected the ending .jsonl, .csv, .tsv, .parquet"):
        check_output(options(Path("a.doc")))


def test_a_place_for_no_file_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "dir.jsonl").mkdir()
    (tmp_path / "file.md").write_text("")
    for out, said in (
        (tmp_path / "dir.jsonl", r"--out: found a directory, expected a place for the file dir\.jsonl"),
        (tmp_path / "file.md" / "x.jsonl", r"--out: found .*file\.md, where nothing can be written, expected a place"),
    ):
        with pytest.raises(ConfigError, match=said):
            check_output(options(out))
    check_output(options(tmp_path / "new" / "x.jsonl"))


def test_results_do_not_take_the_place_of_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "tickets.csv").write_text("text,team\na,billing\n")
    (tmp_path / "same.csv").symlink_to("tickets.csv")
    for out in ("tickets.csv", "same.csv"):
        with pytest.raises(ConfigError, match=rf"--out: found the file that is read, .* {out}; name another one"):
            check_output(argparse.Namespace(out=tmp_path / out, file=tmp_path / "tickets.csv"))
    check_output(argparse.Namespace(out=tmp_path / "teams.csv", file=tmp_path / "tickets.csv"))
    check_output(argparse.Namespace(out=tmp_path / "same.csv", file=Path("-")))


def test_text_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Not as the markup of whatever draws the table."""
    write(options(shown="table"), [{"text": "[bold]:smile:", "score": 0.123456, "none": None}])
    assert capsys.readouterr().out.splitlines()[1].split() == ["[bold]:smile:", "0.1235"]
    write(options(shown="table"), [])
    assert capsys.readouterr().out == ""
