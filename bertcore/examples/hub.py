"""GLUE and SQuAD from the Hugging Face hub, such as `hf://nyu-mll/glue/cola` and `hf://rajpurkar/squad`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bertcore import hub
from bertcore.config import suggest
from bertcore.errors import ConfigError, InputError
from bertcore.examples.glue import TASKS, GlueTask
from bertcore.examples.rows import BadRows, OnError
from bertcore.examples.schema import QUESTION_ANSWERING, ExampleSet, schema_of
from bertcore.examples.squad import check

SPLITS = {
    "train": "train",
    "dev": "validation",
    "dev_mismatched": "validation_mismatched",
    "test": "test",
    "test_mismatched": "test_mismatched",
    "ax": "ax",
}
"""The split's name here -> on the hub."""

GLUE_COLUMNS = {
    "cola": ("sentence",),
    "sst2": ("sentence",),
    "mrpc": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"),
    "wnli": ("sentence1", "sentence2"),
}


READABLE = (*(f"glue/{name}" for name in TASKS), "squad")
"""The formats that can be read from the hub."""


def check_format(uri: str, format_name: str) -> None:
    """Raise `ConfigError` for a URI of another form than `hub.FORM`, and for a format that the hub's sets do not
    have."""
    hub.parse_uri(uri)
    if format_name not in READABLE:
        raise ConfigError(
            f"{uri}: the format {format_name!r} cannot be read from the hub; {suggest(format_name, READABLE)}"
        )


def read_hub(uri: str, format_name: str, on_error: OnError = "skip") -> ExampleSet:
    """The data set at `uri` (`hf://ORG/NAME[/CONFIG][@REVISION]`), whose columns are those of `glue/TASK` or `squad`.

    `on_error` is of bad questions, as in `squad`. `InputError` where the set cannot be loaded or has other columns.
    """
    check_format(uri, format_name)
    task, bad = format_name.removeprefix("glue/"), BadRows(on_error=on_error)
    loaded = dict(_splits(uri, _load(uri, task), task))
    try:
        tables = {
            split: _question_table(rows, f"{uri}: {split}", split == "train", bad)
            if format_name == "squad"
            else _glue_table(task, rows)
            for split, rows in loaded.items()
        }
    except KeyError as error:
        raise InputError(
            f"{uri}: no column {error}, expected the columns of {format_name}; correct uri or format"
        ) from None
    if format_name == "squad":
        return ExampleSet(
            family="question_answering",
            labels=None,
            metrics=["f1", "exact_match"],
            splits=tables,
            dropped=dict(bad.counts),
        )
    metrics = {split: each for split, each in TASKS[task].split_metrics.items() if split in tables}
    return ExampleSet(
        family="classification",
        labels=TASKS[task].labels,
        metrics=TASKS[task].metrics,
        splits=tables,
        split_metrics=metrics,
    )


def _load(uri: str, task: str) -> dict[str, Any]:
    """The splits of the set at `uri`; beside GLUE's MNLI stands the diagnostic set, a configuration of its own."""
    location = hub.parse_uri(uri)
    loaded = dict(hub.load(location))
    if task == "mnli" and location.config == "mnli" and location.repository.endswith("/glue"):
        loaded["ax"] = hub.load(replace(location, config="ax"))["test"]
    return loaded


def _splits(uri: str, loaded: Mapping[str, Any], task: str) -> Iterator[tuple[str, Any]]:
    for name, remote in SPLITS.items():
        if task == "mnli" and name in ("dev", "test"):
            remote += "_matched"
        if remote in loaded:
            yield name, loaded[remote]
        elif name in ("train", "dev"):
            raise InputError(f"{uri}: no split {remote!r} among {', '.join(loaded)}; name a set that has it")


def _glue_table(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    task, columns = TASKS[name], GLUE_COLUMNS[name]
    examples = [
        {
            "id": str(index),
            "text_a": row[columns[0]],
            "text_b": row[columns[1]] if len(columns) == 2 else None,
            "label": _label(task, row["label"]),
        }
        for index, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(examples, schema_of("classification", task.labels))


def _label(task: GlueTask, value: float) -> str | float | None:
    """The hub numbers the classes in the order of `task.labels`, and has -1 where there is no label."""
    if value == -1 or value is None:
        return None
    return value if task.labels is None else task.labels[int(value)]


def _question_table(rows: Iterable[Mapping[str, Any]], where: str, is_train: bool, bad: BadRows) -> pa.Table:
    questions = (
        {
            **{name: row[name] for name in ("id", "title", "context", "question")},
            "answers": [
                {"text": text, "answer_start": start}
                for text, start in zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
            ],
        }
        for row in rows
    )
    kept = [checked for row in questions if (checked := check(row, where, is_train, bad)) is not None]
    return pa.Table.from_pylist(kept, QUESTION_ANSWERING)
