from pathlib import Path

import pytest

from bertcore.errors import InputError
from bertcore.examples import glue
from bertcore.examples.bad_rows import EMPTY_TEXT, NOT_UTF8, UNKNOWN_LABEL, WRONG_COLUMNS, BadRows
from bertcore.examples.glue import GlueOptions
from tests.packing import pack

COLA = 'gj04\t1\t\tHe said "no.\ngj04\t0\t*\tHim said.\n\n'


def directory(tmp_path: Path, **files: str) -> Path:
    for name, content in files.items():
        (tmp_path / f"{name}.tsv").write_text(content, encoding="utf-8")
    return tmp_path


def test_cola_has_no_header_but_its_test_file_has(tmp_path: Path) -> None:
    files = directory(tmp_path, train=COLA, dev=COLA, test="index\tsentence\n0\tWho?\n")
    examples = glue.read("cola", files, GlueOptions())
    assert examples.splits["train"].to_pylist() == [
        {"id": "0", "text_a": 'He said "no.', "text_b": None, "label": "1"},
        {"id": "1", "text_a": "Him said.", "text_b": None, "label": "0"},
    ]
    assert examples.splits["test"].to_pylist() == [{"id": "0", "text_a": "Who?", "text_b": None, "label": None}]
    assert (examples.labels, examples.metrics, examples.dropped) == (["0", "1"], ["mcc"], {})


def test_mrpc_has_a_byte_order_mark_and_quotes_that_quote_nothing(tmp_path: Path) -> None:
    text = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\t"Open quote\tA "b" c\r\n'
    examples = glue.read("mrpc", directory(tmp_path, train=text, dev=text), GlueOptions())
    assert examples.splits["dev"].to_pylist() == [
        {"id": "0", "text_a": '"Open quote', "text_b": 'A "b" c', "label": "1"}
    ]


def test_stsb_scores_are_numbers(tmp_path: Path) -> None:
    text = "index\tsentence1\tsentence2\tscore\n0\ta\tb\t4.750\n"
    examples = glue.read("stsb", directory(tmp_path, train=text, dev=text), GlueOptions())
    assert examples.labels is None and examples.splits["dev"]["label"].to_pylist() == [4.75]


def test_mnli_has_two_dev_sets_and_the_diagnostic_set(tmp_path: Path) -> None:
    text = "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tneutral\tentailment\n"
    diagnostic = "index\tsentence1\tsentence2\n0\ta\tb\n"
    files = {"train": text, "dev_matched": text, "dev_mismatched": text}
    (tmp_path / "diagnostic").mkdir()
    (tmp_path / "diagnostic" / "diagnostic.tsv").write_text(diagnostic)
    examples = glue.read("mnli", directory(tmp_path, **files), GlueOptions())
    assert list(examples.splits) == ["train", "dev", "dev_mismatched", "ax"]
    assert examples.splits["dev"]["label"].to_pylist() == ["entailment"]
    assert examples.splits["ax"]["label"].to_pylist() == [None]
    assert (examples.metrics_of("dev"), examples.metrics_of("ax")) == (["accuracy"], ["mcc"])
    full = "Logic\tDomain\tPremise\tHypothesis\tLabel\n\tNews\ta\tb\tneutral\n"
    (tmp_path / "diagnostic-full.tsv").write_text(full)
    ax = glue.read("mnli", tmp_path, GlueOptions()).splits["ax"].to_pylist()
    assert ax == [{"id": "0", "text_a": "a", "text_b": "b", "label": "neutral"}]


def test_qqp_rows_of_too_few_columns_are_skipped_and_counted(tmp_path: Path) -> None:
    text = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\t1\t2\ta\tb\t1\n6\t1\n7\t1\t2\tc\t\t0\n"
    examples = glue.read("qqp", directory(tmp_path, train=text, dev=text), GlueOptions())
    assert [(row["id"], row["text_b"]) for row in examples.splits["dev"].to_pylist()] == [("0", "b"), ("2", "")]
    assert examples.dropped == {WRONG_COLUMNS: 2}


@pytest.mark.parametrize(
    ("row", "message", "reason"),
    [
        ("one\ttwo\t1", "found 3 columns, expected 2", WRONG_COLUMNS),
        ("one", "found 1 columns, expected 2", WRONG_COLUMNS),
        ("text\t2", "found the label '2', expected one of: 0, 1", UNKNOWN_LABEL),
        (" \t1", "found an empty text", EMPTY_TEXT),
        ("\u200b\x07\t1", "found an empty text", EMPTY_TEXT),
    ],
)
def test_bad_rows_are_named_or_counted(row: str, message: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(f"sentence\tlabel\ngood\t1\n{row}\nlast\t0\n")
    with pytest.raises(InputError, match="train.tsv:3: ") as error:
        glue.read_file("sst2", path)
    assert message in str(error.value)
    bad = BadRows(on_error="skip")
    table = glue.read_file("sst2", path, bad=bad)
    assert (table["id"].to_pylist(), bad.counts) == (["0", "2"], {reason: 1})


@pytest.mark.parametrize("score", ["high", "nan", ""])
def test_scores_that_are_no_numbers(score: str, tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(f"sentence1\tsentence2\tscore\na\tb\t{score}\n")
    with pytest.raises(InputError, match=f"train.tsv:2: found the score '{score}', expected a number"):
        glue.read_file("stsb", path)


def test_a_split_without_rows_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("sentence\tlabel\ngood\t1\n")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\n")
    with pytest.raises(InputError, match="dev.tsv: found no usable row, expected some"):
        glue.read("sst2", tmp_path, GlueOptions())


def test_missing_files_and_columns_are_named(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("sentence\tlabel\na\t1\n")
    with pytest.raises(InputError, match=r"no dev.tsv \(nor .gz, .zst\), .* found train.tsv"):
        glue.read("sst2", tmp_path, GlueOptions())
    with pytest.raises(InputError, match="train.tsv:1: no column 'sentence1' among 'sentence', 'label'"):
        glue.read_file("rte", tmp_path / "train.tsv")
    (tmp_path / "dev.tsv").write_text("index\tsentence\n0\ta\n")
    with pytest.raises(InputError, match="dev.tsv:1: no column 'label'"):
        glue.read("sst2", tmp_path, GlueOptions())


def test_bytes_that_are_not_utf8_are_named_or_counted(tmp_path: Path) -> None:
    path = pack(tmp_path / "dev.tsv.gz", b"sentence\tlabel\na\t1\nb\xff\t1\n")
    with pytest.raises(InputError, match="dev.tsv.gz:3: byte 1 of the row is not UTF-8"):
        glue.read_file("sst2", path)
    bad = BadRows(on_error="skip")
    assert glue.read_file("sst2", path, bad=bad).num_rows == 1 and bad.counts == {NOT_UTF8: 1}
    with pytest.raises(InputError, match="dev.tsv:1: byte 0 of the row is not UTF-8"):
        glue.read_file("sst2", pack(tmp_path / "dev.tsv", b"\xff\xfes\tlabel\n"))


def test_skipped_rows_reach_the_counts_of_the_task(tmp_path: Path) -> None:
    files = directory(tmp_path, train="sentence\tlabel\ngood\t1\nbad\n", dev="sentence\tlabel\ngood\t3\nbad\t0\n")
    examples = glue.read("sst2", files, GlueOptions(on_error="skip"))
    assert examples.dropped == {WRONG_COLUMNS: 1, UNKNOWN_LABEL: 1}
    assert examples.splits["dev"]["id"].to_pylist() == ["1"]


@pytest.mark.parametrize(
    ("task", "folder", "counts"),
    [
        ("cola", "CoLA", (8551, 1043, 1063)),
        ("sst2", "SST-2", (67349, 872, 1821)),
        ("stsb", "STS-B", (5749, 1500, 1379)),
        ("rte", "RTE", (2490, 277, 3000)),
        ("wnli", "WNLI", (635, 71, 146)),
        ("mrpc", "MRPC", (3668, 408, 1725)),
    ],
)
def test_official_counts(task: str, folder: str, counts: tuple[int, ...], shared_data: Path) -> None:
    examples = glue.read(task, shared_data / "glue" / folder, GlueOptions())
    assert tuple(examples.splits[split].num_rows for split in ("train", "dev", "test")) == counts
    assert examples.dropped == {} and examples.splits["test"]["label"].null_count == counts[2]
    assert examples.splits["train"]["label"].null_count == examples.splits["train"]["text_a"].null_count == 0


def test_official_counts_of_single_files(shared_data: Path) -> None:
    folder = shared_data / "glue"
    assert glue.read_file("qnli", folder / "QNLI/dev.tsv.zst").num_rows == 5463
    assert glue.read_file("qnli", folder / "QNLI/test.tsv.zst", labelled=False).num_rows == 5463
    assert glue.read_file("qqp", folder / "QQP/dev_subset.tsv.zst").num_rows == 23497
