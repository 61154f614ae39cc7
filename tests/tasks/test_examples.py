"""Stage examples from a task's files and its options, as stage inputs has left them."""

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bertcore import hub
from bertcore.errors import InputError
from bertcore.examples import schema
from tasks import examples, inputs, params
from tests.import_closure import ROOT


class Metrics:
    """In place of the stage's MLflow run."""

    def __init__(self) -> None:
        self.logged: dict[str, Any] = {}

    def log_metrics(self, values: dict[str, Any]) -> None:
        self.logged |= values


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The one task of a project, which the test may change before `run`."""
    monkeypatch.chdir(ROOT)
    values = params.read()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.lock").write_text("")
    (tmp_path / "files").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "files" / f"{split}.csv").write_text("body,mark\ngood,1\nbad,0\nlost\n")
    task: dict[str, Any] = {
        "format": "table",
        "data": "files",
        "options": {"text_column": "body", "label_column": "mark"},
    }
    values["finetune"]["tasks"] = {"reviews": task}
    monkeypatch.setattr(params, "read", lambda: values)
    return task


def run() -> Metrics:
    inputs.run(None)  # type: ignore[arg-type]  # the stage logs nothing
    stage_run = Metrics()
    examples.run(stage_run, "reviews")  # type: ignore[arg-type]
    return stage_run


def test_bad_rows_are_named_by_file_and_row(entry: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"reviews\.data: files/train\.csv:4: found 1 columns, expected 2"):
        run()
    assert not Path("data/examples/reviews").exists() and not Path("metrics/examples/reviews.json").exists()


def test_skipped_rows_are_counted_by_reason_in_the_metrics_and_the_log(
    entry: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    entry["options"]["on_error"] = "skip"
    stage_run = run()
    assert "reviews: rows that were left out or mended, by reason: wrong number of columns 2" in caplog.text
    metrics = json.loads(Path("metrics/examples/reviews.json").read_text())
    assert metrics == {
        "format": "table",
        "revision": None,
        "family": "classification",
        "splits": {"train": 2, "dev": 2},
        "labels": 2,
        "dropped": {"wrong number of columns": 2},
        "in_train": {"dev": 2},
    }
    assert stage_run.logged == {"splits": {"train": 2, "dev": 2}, "dropped": 2}
    assert schema.read(Path("data/examples/reviews")).labels == ["0", "1"]


def test_without_options(entry: dict[str, Any]) -> None:
    del entry["options"]
    for split in ("train", "dev"):
        Path("files", f"{split}.csv").write_text("text,label\ngood,1\nbad,0\n")
    run()
    assert YAML(typ="safe").load(Path("data/inputs/options/reviews.json")) == {}
    assert schema.read(Path("data/examples/reviews")).splits["dev"].num_rows == 2


def test_the_commit_of_a_hubs_set_is_noted(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    entry["options"]["on_error"] = "skip"
    run()
    read = schema.read(Path("data/examples/reviews"))
    entry["data"] = "hf://org/reviews@v1"
    monkeypatch.setattr(examples, "read_hub", lambda uri, form, options: read)
    monkeypatch.setattr(hub, "commit_of", lambda location: f"commit of {location.revision}")
    run()
    assert json.loads(Path("metrics/examples/reviews.json").read_text())["revision"] == "commit of v1"
