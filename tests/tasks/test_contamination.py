"""The contamination stage: which examples of which splits stand in the corpus, counted by task."""

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bertcore.corpus import documents
from bertcore.corpus.documents import corpus_shards, row_groups
from bertcore.examples.schema import CLASSIFICATION, MULTIPLE_CHOICE, QUESTION_ANSWERING, TAGGING, ExampleSet
from tasks import contamination
from tasks.contamination import measure
from tests.samples import write_corpus

KNOWN = "one two three four five six seven eight nine ten eleven twelve thirteen"
NEW = KNOWN.replace("seven", "seventy")


def classification(splits: dict[str, list[tuple[str, str | None]]]) -> ExampleSet:
    tables = {
        name: pa.Table.from_pylist(
            [{"id": str(n), "text_a": a, "text_b": b, "label": "x"} for n, (a, b) in enumerate(rows)], CLASSIFICATION
        )
        for name, rows in splits.items()
    }
    return ExampleSet(family="classification", labels=["x"], metrics=["accuracy"], splits=tables)


def test_examples_are_counted_by_task_and_split(tmp_path: Path) -> None:
    write_corpus(
        tmp_path, "train", [["He said: One, two, three, four, five.", "Six seven eight nine " + KNOWN[-26:] + "."]]
    )
    write_corpus(tmp_path, "heldout", [[NEW]])
    pairs = classification(
        {
            "train": [(KNOWN, None)],
            "dev": [(KNOWN, "short"), ("short", KNOWN), (KNOWN, KNOWN), (NEW, None), ("short", None)],
            "test": [(NEW, NEW)],
        }
    )
    tagged = pa.Table.from_pylist([{"id": "0", "words": KNOWN.split(), "tags": ["O"] * 13}], TAGGING)
    tagging = ExampleSet(family="tagging", labels=["O"], metrics=["f1"], splits={"dev": tagged})
    question = {"id": "0", "title": "t", "context": f"so {KNOWN} again", "question": "who?", "answers": []}
    questions = ExampleSet(
        family="question_answering",
        labels=None,
        metrics=["f1"],
        splits={"dev": pa.Table.from_pylist([question], QUESTION_ANSWERING)},
    )
    choice = {"id": "0", "context": "so", "question": None, "choices": ["short", KNOWN], "label": 0}
    choices = ExampleSet(
        family="multiple_choice",
        labels=None,
        metrics=["accuracy"],
        splits={"dev": pa.Table.from_pylist([choice], MULTIPLE_CHOICE)},
    )
    found = measure({"pairs": pairs, "tags": tagging, "qa": questions, "choices": choices}, tmp_path)
    all_of_one = {"dev": {"examples": 1, "checked": 1, "contaminated": 1, "contaminated_share": 1.0}}
    assert found == {
        "pairs": {
            "dev": {"examples": 5, "checked": 4, "contaminated": 3, "contaminated_share": 0.75},
            "test": {"examples": 1, "checked": 1, "contaminated": 0, "contaminated_share": 0.0},
        },
        "tags": all_of_one,
        "qa": all_of_one,
        "choices": all_of_one,
    }


def test_the_counts_do_not_depend_on_the_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "GROUPS_AT_ONCE", 1)
    numbers = [" ".join(f"w{n}x{place}" for place in range(13)) for n in range(40)]
    write_corpus(tmp_path, "train", [[text] for text in numbers[::2]], group_characters=100)
    sets = {"task": classification({"dev": [(text, None) for text in numbers]})}
    assert len(list(row_groups(corpus_shards(tmp_path, "train")))) > 3
    one, two = (measure(sets, tmp_path, count) for count in (1, 2))
    assert one == two and one["task"]["dev"]["contaminated"] == 20


def test_a_task_without_long_texts_has_a_share_of_nothing(tmp_path: Path) -> None:
    write_corpus(tmp_path, "train", [[KNOWN]])
    found = measure({"short": classification({"dev": [("too short", None)]})}, tmp_path)
    assert found == {"short": {"dev": {"examples": 1, "checked": 0, "contaminated": 0, "contaminated_share": 0.0}}}


def test_without_tasks_there_is_nothing_to_look_for_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data/examples/.old-a1b2c3d4").mkdir(parents=True)  # of a stage that was killed while it wrote
    logged: list[dict[str, Any]] = []

    class Run:
        def log_metrics(self, metrics: dict[str, Any]) -> None:
            logged.append(metrics)

    with caplog.at_level(logging.INFO):
        contamination.run(Run())  # type: ignore[arg-type]
    assert logged == [{}] and json.loads(Path("metrics/contamination.json").read_text()) == {}
    assert "params.yaml names no fine-tuning tasks" in caplog.text
