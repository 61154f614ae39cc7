import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertcore.corpus.evaluation_texts import evaluation_texts
from bertcore.errors import InputError
from bertcore.examples import cells, table, table_rows
from bertcore.examples.bad_rows import (
    EMPTY_TEXT,
    NO_LABEL,
    NOT_TEXT,
    NOT_UTF8,
    UNKNOWN_LABEL,
    UNSEEN_LABEL,
    WRONG_COLUMNS,
)
from bertcore.examples.schema import ExampleSet
from bertcore.examples.table import TableOptions
from tests.packing import pack

ROWS = [("a good, long one", "yes"), ('a "bad"\none', "no"), ("so\tso", "yes")]


def read(directory: Path, **options: Any) -> ExampleSet:
    return table.read(directory, TableOptions(**options))


def both(directory: Path, name: str, content: bytes) -> Path:
    """`content` as train and as dev."""
    for split in ("train", "dev"):
        pack(directory / f"{split}{name}", content)
    return directory


def as_csv(delimiter: str) -> bytes:
    quoted = [(f'"{text.replace(chr(34), chr(34) * 2)}"', label) for text, label in ROWS]
    return "".join(f"{text}{delimiter}{label}\r\n" for text, label in [("text", "label"), *quoted]).encode("utf-8-sig")


def as_jsonl() -> bytes:
    return "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS).encode()


def as_parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        (".csv", as_csv(","), {}),
        (".csv.zst", as_csv(";"), {"delimiter": ";"}),
        (".tsv.gz", as_csv("\t"), {"quotes": True}),
        (".jsonl", as_jsonl(), {}),
        (".json", as_jsonl(), {}),
        (".json.gz", b"[" + as_jsonl().replace(b"}\n", b"},\n").removesuffix(b",\n") + b"]", {}),
        (".parquet.zst", as_parquet(), {}),
    ],
)
def test_the_same_rows_from_every_kind_of_file(name: str, content: bytes, options: dict, tmp_path: Path) -> None:
    examples = read(both(tmp_path, name, content), **options)
    expected = [
        {"id": str(index), "text_a": text, "text_b": None, "label": label} for index, (text, label) in enumerate(ROWS)
    ]
    assert examples.splits["train"].to_pylist() == examples.splits["dev"].to_pylist() == expected
    assert (examples.labels, examples.metrics, examples.dropped) == (["no", "yes"], ["accuracy", "macro_f1"], {})


def test_quotes_in_tsv_are_ordinary_characters_and_blank_lines_are_nothing(tmp_path: Path) -> None:
    examples = read(both(tmp_path, ".tsv", b'text\tlabel\n"open\t1\n\n\tend" \t0\n'.replace(b"\n\tend", b"\nend")))
    assert examples.splits["dev"]["text_a"].to_pylist() == ['"open', 'end" ']


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        (".csv", b"\ntext\na\n\n\nb\n\n\n", ["0", "3"]),
        (".tsv", b"text\r\na\r\n\r\n\r\nb\r\n\r\n", ["0", "3"]),
        (".csv", b'text\na\n""\n\nb\n', ["0", "3"]),
        (".csv", b"text,label\n\na,yes\n\n\nb,no\n\n", ["0", "1"]),
    ],
)
def test_blank_lines_of_one_column_are_rows(name: str, content: bytes, ids: list[str], tmp_path: Path) -> None:
    both(tmp_path, ".jsonl", as_jsonl())
    pack(tmp_path / f"test{name}", content)
    examples = read(tmp_path, on_error="skip")
    assert examples.splits["test"]["id"].to_pylist() == ids
    assert examples.dropped == ({EMPTY_TEXT: 2} if ids == ["0", "3"] else {})


def test_a_blank_line_of_one_column_is_named(tmp_path: Path) -> None:
    both(tmp_path, ".jsonl", as_jsonl())
    pack(tmp_path / "test.csv", b'text\n"two\nlines"\n\nb\n')
    with pytest.raises(InputError, match="test.csv:4: found an empty text"):
        read(tmp_path)
    pack(tmp_path / "test.csv", b"\nb\n")
    for split in ("train", "dev"):
        pack(tmp_path / f"{split}.jsonl", as_jsonl().replace(b"text", b"0"))
    with pytest.raises(InputError, match="test.csv:1: found an empty text"):
        read(tmp_path, header=False, text_column="0")


def test_pairs_without_a_header(tmp_path: Path) -> None:
    options = {"header": False, "text_column": "1", "text_pair_column": "2", "label_column": "0"}
    examples = read(both(tmp_path, ".csv", b"10,a,b\n9,c,\nx,d,e\n"), **options)
    assert examples.labels == ["9", "10", "x"]
    assert examples.splits["dev"].to_pylist()[1] == {"id": "1", "text_a": "c", "text_b": "", "label": "9"}


def test_labels_that_hold_the_separator(tmp_path: Path) -> None:
    both(tmp_path, ".jsonl", b'{"text": "a", "label": ["x, y", "z"]}\n{"text": "b", "label": "z"}\n')
    assert read(tmp_path, kind="multi_label").labels == ["x, y", "z"]
    assert read(both(tmp_path / "one", ".csv", b'text,label\na,"x, y"\nb,z\n')).labels == ["x, y", "z"]
    both(tmp_path / "text", ".csv", b'text,label\na,"x, y"\n')
    message = r"train.csv:2: found the label 'x' \(label_separator: ','\), expected one of: x, y, z"
    with pytest.raises(InputError, match=message):
        read(tmp_path / "text", kind="multi_label", labels=["x, y", "z"])
    assert read(tmp_path / "text", kind="multi_label", label_separator=";").labels == ["x, y"]
    lists = b"""text,label\na,"['x, y', 'z']"\nb,"[""x, y"", ""v""]"\nc,[]\nd,[w]\n"""
    examples = read(both(tmp_path / "lists", ".csv", lists), kind="multi_label")
    assert examples.splits["train"]["labels"].to_pylist() == [["x, y", "z"], ["v", "x, y"], [], ["[w]"]]


@pytest.mark.parametrize("cell", ["['a' 'b']", "[0 3]", "('a', 'b')", "{'a'}", "['a'\n 'b', 'c']"])
def test_lists_that_are_none_make_no_labels(cell: str, tmp_path: Path) -> None:
    """Such as numpy's arrays, whose texts side by side Python would join."""
    both(tmp_path, ".jsonl", json.dumps({"text": "a", "label": cell}).encode() + b"\n")
    with pytest.raises(InputError, match=r"train.jsonl:1: found .*, expected a list as JSON or Python writes one"):
        read(tmp_path, kind="multi_label")


def test_label_that_no_file_of_predictions_can_hold(tmp_path: Path) -> None:
    lines = (json.dumps({"text": "a", "label": label}).encode() for label in ("x", "y\tz", "y"))
    both(tmp_path, ".jsonl", b"\n".join(lines))
    with pytest.raises(InputError, match=r"train.jsonl:2: found '\\t' in the label 'y\\tz', expected none"):
        read(tmp_path)
    assert read(tmp_path, on_error="skip").dropped == {table.BROKEN_LABEL: 2}
    several = read(tmp_path, kind="multi_label", label_separator=";")
    assert several.labels == ["x", "y", "y\tz"]  # their predictions are JSON


def test_several_labels(tmp_path: Path) -> None:
    both(tmp_path, ".csv", b'text,label\na,"x, y,x"\nb,\n')
    pack(tmp_path / "test.jsonl", b'{"text": "c", "label": ["y"]}\n{"text": "d", "label": []}\n')
    examples = read(tmp_path, kind="multi_label")
    assert examples.family == "multi_label" and examples.labels == ["x", "y"]
    assert examples.splits["train"]["labels"].to_pylist() == [["x", "y"], []]
    assert examples.splits["test"]["labels"].to_pylist() == [["y"], []]
    assert examples.metrics == ["micro_f1", "macro_f1", "exact_match"]
    (tmp_path / "test.jsonl").unlink()
    assert read(tmp_path, kind="multi_label", label_separator=";").labels == ["x, y,x"]


def test_regression(tmp_path: Path) -> None:
    examples = read(
        both(tmp_path, ".jsonl", b'{"text": "a", "label": 2}\n{"text": "b", "label": "-1.5"}\n'), kind="regression"
    )
    assert examples.labels is None and examples.splits["dev"]["label"].to_pylist() == [2.0, -1.5]
    assert examples.metrics == ["pearson", "spearmanr"]


def test_labels_that_look_the_same_are_one(tmp_path: Path) -> None:
    """An é of one character, and of two."""
    both(tmp_path, ".tsv", "text\tlabel\na\tcaf\u00e9\nb\tcafe\u0301\nc\tth\u00e9\n".encode())
    one, other = "caf\u00e9", "th\u00e9"
    for options in ({}, {"labels": ["cafe\u0301", "the\u0301"]}):
        examples = read(tmp_path, **options)
        assert examples.labels == [one, other]
        assert examples.splits["train"]["label"].to_pylist() == [one, one, other]
    assert read(tmp_path, kind="multi_label").splits["train"]["labels"].to_pylist() == [[one], [one], [other]]
    with pytest.raises(ValueError, match="expected 2 or more names, each of them once"):
        TableOptions(labels=["cafe\u0301", "caf\u00e9"])


def test_labels_and_metrics_may_be_given(tmp_path: Path) -> None:
    examples = read(both(tmp_path, ".csv", as_csv(",")), labels=["yes", "no", "maybe"], metrics=["mcc"])
    assert (examples.labels, examples.metrics) == (["yes", "no", "maybe"], ["mcc"])


@pytest.mark.parametrize("content", [b"text\na\n", b"text,label\na,\nb,\n"])
def test_a_test_file_may_have_no_labels(content: bytes, tmp_path: Path) -> None:
    both(tmp_path, ".csv", as_csv(","))
    pack(tmp_path / "test.csv", content)
    test = read(tmp_path).splits["test"]
    assert test.num_rows > 0 and test["label"].null_count == test.num_rows


def test_labels_of_a_test_file_may_be_hidden(tmp_path: Path) -> None:
    pack(tmp_path / "test.csv", b"text,label\na,-1\nb,-1\n")
    both(tmp_path, ".csv", b"text,label\na,0\nb,1\n")
    assert read(tmp_path).splits["test"]["label"].null_count == 2
    both(tmp_path, ".csv", b"text,label\na,-1\nb,1\n")
    assert read(tmp_path).splits["test"]["label"].to_pylist() == ["-1", "-1"]


def test_hidden_labels_may_be_whole_floats(tmp_path: Path) -> None:
    """As pandas writes the numbers of a column where a cell is missing."""
    pack(tmp_path / "test.jsonl", b'{"text": "a", "label": -1.0}\n{"text": "b", "label": null}\n')
    both(tmp_path, ".jsonl", b'{"text": "a", "label": 0.0}\n{"text": "b", "label": 1.0}\n')
    assert read(tmp_path).labels == ["0", "1"] and read(tmp_path).splits["test"]["label"].null_count == 2


@pytest.mark.parametrize(
    ("kind", "test", "line"),
    [
        ("classification", b"text,label\na,\nb,yes\n", "2: found no label"),
        ("classification", b"text,label\na,yes\nb, \n", "3: found no label"),
        ("regression", b"text,label\na,\nb,1.5\n", "2: found the score '', expected a number"),
    ],
)
def test_a_test_file_with_some_labels_is_labelled(kind: str, test: bytes, line: str, tmp_path: Path) -> None:
    content = as_csv(",") if kind == "classification" else b"text,label\na,1\nb,2\n"
    both(tmp_path, ".csv", content)
    pack(tmp_path / "test.csv", test)
    with pytest.raises(InputError, match=f"test.csv:{line}"):
        read(tmp_path, kind=kind)
    examples = read(tmp_path, kind=kind, on_error="skip")
    assert examples.splits["test"].num_rows == 1 and examples.splits["test"]["label"].null_count == 0
    assert sum(examples.dropped.values()) == 1


@pytest.mark.parametrize("empty", ["[]", "[null]", "null", '""'])
def test_several_labels_may_be_hidden(empty: str, tmp_path: Path) -> None:
    both(tmp_path, ".csv", b"text,label\na,x\nb,\n")
    pack(tmp_path / "test.jsonl", f'{{"text": "c", "label": {empty}}}\n{{"text": "d"}}\n'.encode())
    test = read(tmp_path, kind="multi_label").splits["test"]
    assert test["labels"].to_pylist() == [None, None]


@pytest.mark.parametrize("missing", ["null", "NaN"])
def test_a_row_whose_labels_nobody_gave_is_no_row_without_labels(missing: str, tmp_path: Path) -> None:
    content = f'{{"text": "a", "label": ["x"]}}\n{{"text": "b", "label": {missing}}}\n{{"text": "c", "label": []}}\n'
    both(tmp_path, ".jsonl", content.encode())
    with pytest.raises(InputError, match=r"train.jsonl:2: found null, expected labels, or an empty list"):
        read(tmp_path, kind="multi_label")
    examples = read(tmp_path, kind="multi_label", on_error="skip")
    assert examples.splits["train"]["labels"].to_pylist() == [["x"], []] and examples.dropped == {NO_LABEL: 2}
    pack(tmp_path / "test.jsonl", f'{{"text": "a", "label": {missing}}}\n'.encode())
    hidden = read(tmp_path, kind="multi_label", on_error="skip").splits["test"]
    assert hidden["labels"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("kind", "label", "found"),
    [
        ("classification", '["x"]', r"\['x'\] \(list\)"),
        ("classification", '{"a": 1}', r"\{'a': 1\} \(dict\)"),
        ("multi_label", '{"a": 1}', r"\{'a': 1\} \(dict\)"),
        ("multi_label", '["x", ["y"]]', r"\['y'\] \(list\)"),
    ],
)
def test_labels_that_are_no_names(kind: str, label: str, found: str, tmp_path: Path) -> None:
    lines = [f'{{"text": "a", "label": {each}}}\n' for each in ('"x"', label, '"z"')]
    both(tmp_path, ".jsonl", "".join(lines).encode())
    with pytest.raises(InputError, match=f"train.jsonl:2: found the label {found}, expected a name or a number"):
        read(tmp_path, kind=kind)
    examples = read(tmp_path, kind=kind, on_error="skip")
    assert (examples.labels, examples.dropped) == (["x", "z"], {cells.NO_NAME: 2})


def test_f1_needs_the_labels_0_and_1(tmp_path: Path) -> None:
    both(tmp_path, ".csv", as_csv(","))
    with pytest.raises(
        InputError, match="train.csv: metrics: found f1, .* labels 'no', 'yes'; rename .* take macro_f1"
    ):
        read(tmp_path, metrics=["accuracy", "f1"])
    both(tmp_path, ".csv", b"text,label\na,0\nb,1\n")
    assert read(tmp_path, metrics=["f1"]).metrics == ["f1"]


def test_a_split_that_keeps_no_row_is_named(tmp_path: Path) -> None:
    both(tmp_path, ".csv", as_csv(","))
    pack(tmp_path / "dev.csv", b"text,label\na,perhaps\n")
    with pytest.raises(InputError, match="dev.csv: found no usable row"):
        read(tmp_path, on_error="skip")


def test_one_file_is_split_by_draws(tmp_path: Path) -> None:
    content = "text,label\n" + "".join(f"text {index},{index % 2}\n" for index in range(200))
    pack(tmp_path / "reviews.csv", content.encode())
    first, again = read(tmp_path, dev_fraction=0.25), read(tmp_path, dev_fraction=0.25)
    ids = {split: part["id"].to_pylist() for split, part in first.splits.items()}
    assert first == again and set(ids) == {"train", "dev"}
    assert sorted(map(int, ids["train"] + ids["dev"])) == list(range(200)) and 30 < len(ids["dev"]) < 70


BAD = [
    (".csv", b"b", 4, WRONG_COLUMNS, "found 1 columns, expected 2 (delimiter ',')"),
    (".csv", b"b,x,y", 4, WRONG_COLUMNS, "found 3 columns"),
    (".csv", b"b\xff,x", 4, NOT_UTF8, "found bytes that are not UTF-8"),
    (".csv", b" ,x", 4, EMPTY_TEXT, "found an empty text"),
    (".csv", "\u200b\u2060\ue000,x".encode(), 4, EMPTY_TEXT, "found an empty text"),
    (".csv", b'""', 4, WRONG_COLUMNS, "found 1 columns, expected 2"),
    (".csv", b"b,", 4, NO_LABEL, "found no label"),
    (".csv", b"b,z", 4, UNSEEN_LABEL, "found the label 'z', expected those of train: x, y"),
    (".jsonl", b'{"text": "b", "label": NaN}', 3, NO_LABEL, "found no label"),
    (".jsonl", b"{", 3, table_rows.NOT_JSON, "found no JSON (Expecting property"),
    (".jsonl", b"[1]", 3, table_rows.NOT_JSON, "found a list"),
    (".jsonl", b"\xff", 3, NOT_UTF8, "byte 0 of the row is not UTF-8"),
    (".jsonl", b'{"text": "b"}', 3, WRONG_COLUMNS, "found no field 'label'"),
    (".jsonl", b'{"text": 1, "label": "x"}', 3, NOT_TEXT, "found 1 (int) in 'text', expected a text"),
    (".jsonl", b'{"text": null, "label": "x"}', 3, EMPTY_TEXT, "found an empty text"),
]


@pytest.mark.parametrize(("name", "row", "line", "reason", "message"), BAD)
def test_bad_rows_are_named_or_counted(
    name: str, row: bytes, line: int, reason: str, message: str, tmp_path: Path
) -> None:
    good = (
        b'text,label\na,x\n"c",y\n' if name == ".csv" else b'{"text": "a", "label": "x"}\n{"text": "c", "label": "y"}\n'
    )
    pack(tmp_path / f"train{name}", good)
    last = b"d,x\n" if name == ".csv" else b'{"text": "d", "label": "x"}\n'
    pack(tmp_path / f"dev{name}", good + row + b"\n" + last)
    with pytest.raises(InputError) as error:
        read(tmp_path)
    assert f"dev{name}:{line}: {message}" in str(error.value) and "\n" not in str(error.value)
    examples = read(tmp_path, on_error="skip")
    assert examples.dropped == {reason: 1} and examples.splits["dev"]["id"].to_pylist() == ["0", "1", "3"]


def test_rows_are_named_by_their_first_line(tmp_path: Path) -> None:
    pack(tmp_path / "train.csv", b'text,label\n"two\nlines",x\n"two\nmore",y\n"and\nmore"\n')
    with pytest.raises(InputError, match="train.csv:6: found 1 columns"):
        read(tmp_path)


def test_quotes_that_do_not_close_end_the_reading(tmp_path: Path) -> None:
    pack(tmp_path / "train.csv", b'text,label\na,x\n"b,y\nc,x\n')
    with pytest.raises(InputError, match="train.csv:3: quotes that do not close .* set quotes: false"):
        read(tmp_path, on_error="skip")
    pack(tmp_path / "dev.csv", b"text,label\na,x\n")
    assert read(tmp_path, quotes=False).splits["train"]["text_a"].to_pylist() == ["a", '"b', "c"]


def test_a_label_of_more_digits_than_a_number_has_is_a_name(tmp_path: Path) -> None:
    examples = read(both(tmp_path, ".csv", f"text,label\na,10\nb,9\nc,{'1' * 5000}\n".encode()))
    assert examples.labels == ["9", "10", "1" * 5000]


def test_long_cells_are_read_whole(tmp_path: Path) -> None:
    long = b"word " * 40_000
    examples = read(both(tmp_path, ".csv", b"text,label\n" + long + b",x\nb,y\n"))
    assert examples.splits["train"]["text_a"][0].as_py() == long.decode()


@pytest.mark.parametrize("score", ["high", "nan", "", "1_000"])
def test_scores_that_are_no_numbers(score: str, tmp_path: Path) -> None:
    both(tmp_path, ".csv", f"text,label\na,1\nb,{score}\n".encode())
    with pytest.raises(InputError, match=f"train.csv:3: found the score '{score}', expected a number"):
        read(tmp_path, kind="regression")


def test_missing_scores_are_counted_apart_from_wrong_ones(tmp_path: Path) -> None:
    lines = [{"text": "a", "label": label} for label in (1, 2, None, float("nan"), " ", "high", [1])]
    both(tmp_path, ".jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
    dropped = {NO_LABEL: 6, UNKNOWN_LABEL: 2, "label that is no name": 2}  # of train and of dev
    assert read(tmp_path, kind="regression", on_error="skip").dropped == dropped


def test_a_truth_value_is_no_score(tmp_path: Path) -> None:
    both(tmp_path, ".jsonl", b'{"text": "a", "label": 1}\n{"text": "b", "label": true}\n')
    with pytest.raises(InputError, match=r"train.jsonl:2: found the score True, expected a number such as 2\.5"):
        read(tmp_path, kind="regression")


def test_a_score_that_no_number_of_the_machine_can_hold_is_a_bad_row(tmp_path: Path) -> None:
    lines = [{"text": "a", "label": 1}, {"text": "b", "label": 2.5}, {"text": "c", "label": 10**400}]
    both(tmp_path, ".jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
    examples = read(tmp_path, kind="regression", on_error="skip")
    assert examples.splits["train"].num_rows == 2


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"text,label\na,x\n", {}, "train.csv: found 'x' as the only label of train, expected more"),
        (b"text,label\n", {}, "train.csv: found no usable row"),
        (
            b"text,label\na,x\n",
            {"text_column": "body"},
            "no column 'body' among 'text', 'label'; .* option text_column",
        ),
        (b"text,label\na,x\n", {"text_pair_column": "b"}, "no column 'b' .* option text_pair_column"),
        (b"text\na\n", {}, "no column 'label' among 'text'; correct the option label_column"),
        (b"a,x\n", {"header": False}, "no column 'text' among '0', '1'; .* .there is no header: give its number"),
        (b"text,label\na,x\nb,q\n", {"labels": ["x", "y"]}, "train.csv:3: found the label 'q', expected one of: x, y"),
    ],
)
def test_what_the_options_do_not_fit(content: bytes, options: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read(both(tmp_path, ".csv", content), **options)


def test_a_damaged_parquet_file_and_an_unknown_ending(tmp_path: Path) -> None:
    pack(tmp_path / "train.parquet", b"PAR1")
    with pytest.raises(InputError, match="train.parquet: not a Parquet file"):
        read(tmp_path)
    pq.write_table(pa.table({"text": ["an example of a text"] * 100, "label": ["a"] * 100}), tmp_path / "whole")
    whole = bytearray((tmp_path / "whole").read_bytes())
    whole[8:40] = b"\xff" * 32  # of a compressed column
    pack(tmp_path / "train.parquet", bytes(whole))
    with pytest.raises(InputError, match="train.parquet: not a Parquet file"):
        read(tmp_path)
    pack(tmp_path / "train.xlsx", b"")
    with pytest.raises(InputError, match="train.xlsx: unknown ending, expected .csv, .tsv"):
        read(tmp_path, train_file="train.xlsx")


def test_labels_of_any_type_become_names(tmp_path: Path) -> None:
    content = b'{"text": "a", "label": 1.0}\n{"text": "b", "label": 10}\n{"text": "c", "label": 2}\n'
    assert read(both(tmp_path, ".jsonl", content)).labels == ["1", "2", "10"]


@pytest.mark.parametrize(
    ("name", "options", "labels", "total"),
    [
        ("train_5k_subset.csv.zst", {"text_column": "0", "label_column": "1"}, ["0", "1", "2", "3"], 5000),
        (
            "test.csv.zst",
            {"text_column": "1", "text_pair_column": "2", "label_column": "0"},
            ["1", "2", "3", "4"],
            7600,
        ),
    ],
)
def test_ag_news(name: str, options: dict, labels: list[str], total: int, shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to(shared_data / "topic/ag_news" / name)
    examples = read(tmp_path, header=False, **options)
    counts = {split: part.num_rows for split, part in examples.splits.items()}
    assert examples.labels == labels and sum(counts.values()) == total and 0.08 < counts["dev"] / total < 0.12
    assert examples.dropped == {} and examples.splits["train"]["text_a"].null_count == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text,label,text\na,b,c\n", "train.csv:1: the column 'text' stands twice, expected different names"),
        ("text,label\na,b\n".encode("utf-16"), "train.csv:1: the header is not UTF-8; convert the file"),
    ],
)
def test_headers_that_name_no_columns(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read(both(tmp_path, ".csv", content))


def test_parquet_with_values_that_python_has_not_is_named(tmp_path: Path) -> None:
    late = pa.array([2**52, 2**52], pa.timestamp("ms"))  # seconds kept as milliseconds: beyond the year 9999
    table = pa.table({"text": ["a", "b"], "label": ["0", "1"], "when": late})
    for split in ("train", "dev"):
        pq.write_table(table, tmp_path / f"{split}.parquet")
    with pytest.raises(InputError, match="train.parquet: not a Parquet file .*date value out of range"):
        read(tmp_path)
    with pytest.raises(InputError, match="train.parquet: damaged .*date value out of range"):
        list(evaluation_texts(tmp_path / "train.parquet"))


def test_parquet_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        columns = [pa.array(["red"]), pa.array(["blue"]), pa.array(["a"])]
        pq.write_table(pa.Table.from_arrays(columns, ["text", "text", "label"]), tmp_path / f"{split}.parquet")
    with pytest.raises(InputError, match="train.parquet: the column 'text' stands twice"):
        read(tmp_path)


def test_line_ends_in_a_quoted_cell_stay_as_they_are(tmp_path: Path) -> None:
    examples = read(both(tmp_path, ".csv", b'text,label\r\n"one\r\ntwo\nthree",a\r\nfour,b'))
    assert examples.splits["train"]["text_a"].to_pylist() == ["one\r\ntwo\nthree", "four"]


@pytest.mark.parametrize("bad", ['{"text": "x \\ud800", "label": "a"}', "[" * 100_000, '{"text": ' + "9" * 5000 + "}"])
def test_json_lines_that_cannot_be_kept(bad: str, tmp_path: Path) -> None:
    lines = ['{"text": "one", "label": "a"}', bad, '{"text": "two", "label": "b"}']
    both(tmp_path, ".jsonl", "\n".join(lines).encode())
    with pytest.raises(InputError, match=r"train.jsonl:2: found no JSON \("):
        read(tmp_path)
    assert read(tmp_path, on_error="skip").dropped == {table_rows.NOT_JSON: 2}


def test_an_array_of_other_things_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="train.json:2: found a int, expected an array of JSON objects"):
        read(both(tmp_path, ".json", b'[{"text": "a", "label": "x"}, 3]'))


def test_lines_that_end_as_on_an_old_mac(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="train.csv:1: found a carriage return inside a row, expected line ends"):
        read(both(tmp_path, ".csv", b"text,label\ra,b\rc,d\r"))


def test_a_drawn_dev_shares_no_text_with_train(tmp_path: Path) -> None:
    rows = [{"text": f"premise {place // 3}", "pair": f"hypothesis {place}", "label": "a"} for place in range(900)]
    rows += [{"text": row["pair"], "pair": row["text"], "label": "b"} for row in rows]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = read(tmp_path, text_pair_column="pair").splits
    texts = {
        split: set(table["text_a"].to_pylist()) | set(table["text_b"].to_pylist()) for split, table in found.items()
    }
    assert 0 < found["dev"].num_rows < found["train"].num_rows
    assert not texts["train"] & texts["dev"]


def test_numbers_and_names_of_rows_are_no_classes(tmp_path: Path) -> None:
    rows = "".join(f"text {n},{n / 7:.2f}\n" for n in range(60))
    both(tmp_path, ".csv", f"text,label\n{rows}".encode())
    with pytest.raises(InputError, match=r"found 60 labels in 60 examples, most of them once, .* kind: regression"):
        read(tmp_path)
    assert read(tmp_path, kind="regression").labels is None


def test_of_many_labels_some_are_named(tmp_path: Path) -> None:
    rows = "".join(f"text {n},class{n % 50}\n" for n in range(200))
    pack(tmp_path / "train.csv", f"text,label\n{rows}".encode())
    pack(tmp_path / "dev.csv", b"text,label\na,other\n")
    with pytest.raises(InputError, match=r"expected those of train: class0, .*, class26, …"):
        read(tmp_path)
