from pathlib import Path

import pyarrow as pa
import pytest

from bertcore.errors import ArtifactError
from bertcore.examples import schema
from bertcore.examples.schema import ExampleSet


def example_set(family: str, labels: list[str] | None, rows: list[dict], metric: str) -> ExampleSet:
    table = pa.Table.from_pylist(rows, schema.schema_of(family, labels))
    return ExampleSet(
        family=family,
        labels=labels,
        metrics=[metric],
        splits={"train": table, "dev": table},
        dropped={"empty text": 2},
        split_metrics={"dev": ["mcc"]},
    )


SETS = {
    "classification": example_set(
        "classification", ["no", "yes"], [{"id": "0", "text_a": "a", "text_b": None, "label": "yes"}], "accuracy"
    ),
    "regression": example_set(
        "classification", None, [{"id": "0", "text_a": "a", "text_b": "b", "label": 1.5}], "pearson"
    ),
    "multi-label": example_set(
        "multi_label", ["a", "b"], [{"id": "0", "text_a": "x", "text_b": None, "labels": ["a", "b"]}], "micro_f1"
    ),
    "tagging": example_set("tagging", ["O", "B-A"], [{"id": "0", "words": ["x", "é"], "tags": ["O", "B-A"]}], "f1"),
    "choices": example_set(
        "multiple_choice",
        None,
        [{"id": "0", "context": "a", "question": None, "choices": ["b", "c"], "label": 1}],
        "accuracy",
    ),
    "questions": example_set(
        "question_answering",
        None,
        [
            {"id": "0", "title": "", "context": "a b", "question": "?", "answers": [{"text": "b", "answer_start": 2}]},
            {"id": "1", "title": "", "context": "a b", "question": "?", "answers": []},
        ],
        "f1",
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_read_gives_what_was_written_and_the_bytes_are_the_same(name: str, tmp_path: Path) -> None:
    schema.write(SETS[name], tmp_path / "a")
    schema.write(SETS[name], tmp_path / "b")
    assert schema.read(tmp_path / "a") == SETS[name]
    contents = [{path.name: path.read_bytes() for path in (tmp_path / each).iterdir()} for each in "ab"]
    assert contents[0] == contents[1] and set(contents[0]) == {"train.parquet", "dev.parquet", "task.json"}


def test_writing_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old.parquet").write_text("old")
    schema.write(SETS["tagging"], tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert not (tmp_path / "a" / "old.parquet").exists()


def test_other_columns_are_refused() -> None:
    table = SETS["tagging"].splits["dev"]
    with pytest.raises(ValueError, match="split 'dev' has the columns"):
        ExampleSet(family="classification", labels=["a"], metrics=["f1"], splits={"dev": table})


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="task.json: not found, expected the output of stage examples"):
        schema.read(tmp_path / "a")
    schema.write(SETS["tagging"], tmp_path / "a")
    (tmp_path / "a" / "dev.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArtifactError, match="a: damaged"):
        schema.read(tmp_path / "a")
    (tmp_path / "a" / "dev.parquet").unlink()
    with pytest.raises(ArtifactError, match="dev.parquet: not found"):
        schema.read(tmp_path / "a")


def test_examples_that_stand_in_train_are_counted_whatever_their_labels() -> None:
    columns = ("id", "text_a", "text_b", "label")
    rows = {
        "train": [("0", "a", "b", "x"), ("1", "c", None, "x")],
        "dev": [("0", "b", "a", "x"), ("1", "c", None, "y")],
    }
    splits = {
        split: pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in found], schema.CLASSIFICATION)
        for split, found in reversed(rows.items())
    }
    found = ExampleSet(family="classification", labels=["x", "y"], metrics=["accuracy"], splits=splits)
    assert schema.in_train(found) == {"dev": 1}
