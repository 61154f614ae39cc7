"""GLUE and SQuAD from the Hugging Face hub, such as `hf://nyu-mll/glue/cola` and `hf://rajpurkar/squad`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from bertcore import hub
from bertcore.config import suggest
from bertcore.errors import ConfigError, InputError
from bertcore.examples.glue import TASKS, GlueTask
from bertcore.examples.schema import QUESTION_ANSWERING, ExampleSet, schema_of

SPLITS = {
    "train": "train",
    "dev": "validation",
    "dev_mismatched": "validation_mismatched",
    "test": "test",
    "test_mismatched": "test_mismatched",
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


def read_hub(uri: str, format_name: str) -> ExampleSet:
    """The data set at `uri` (`hf://ORG/NAME[/CONFIG][@REVISION]`), whose columns are those of `glue/TASK` or `squad`.

    `InputError` where the set cannot be loaded or has other columns, `ConfigError` for an unknown format.
    """
    location = hub.parse_uri(uri)
    kind, _, task = format_name.partition("/")
    if format_name != "squad" and (kind != "glue" or task not in TASKS):
        known = [*(f"glue/{name}" for name in TASKS), "squad"]
        raise ConfigError(
            f"{uri}: the format {format_name!r} cannot be read from the hub; {suggest(format_name, known)}"
        )
    splits = _splits(uri, hub.load(location), task)
    convert = _question_table if format_name == "squad" else _glue_converter(task)
    try:
        tables = {name: convert(rows) for name, rows in splits}
    except KeyError as error:
        raise InputError(
            f"{uri}: no column {error}, expected the columns of {format_name}; correct uri or format"
        ) from None
    if format_name == "squad":
        return ExampleSet(
            family="question_answering", labels=None, metrics=["f1", "exact_match"], splits=tables, dropped={}
        )
    return ExampleSet(
        family="classification", labels=TASKS[task].labels, metrics=TASKS[task].metrics, splits=tables, dropped={}
    )


def _splits(uri: str, loaded: Mapping[str, Any], task: str) -> Iterator[tuple[str, Any]]:
    for name, remote in SPLITS.items():
        if task == "mnli" and name in ("dev", "test"):
            remote += "_matched"
        if remote in loaded:
            yield name, loaded[remote]
        elif name in ("train", "dev"):
            raise InputError(f"{uri}: no split {remote!r} among {', '.join(loaded)}; name a set that has it")


def _glue_converter(name: str) -> Callable[[Any], pa.Table]:
    task, columns = TASKS[name], GLUE_COLUMNS[name]

    def convert(rows: Any) -> pa.Table:
        return pa.Table.from_pylist(
            [
                {
                    "id": str(index),
                    "text_a": row[columns[0]],
                    "text_b": row[columns[1]] if len(columns) == 2 else None,
                    "label": _label(task, row["label"]),
                }
                for index, row in enumerate(rows)
            ],
            schema_of("classification", task.labels),
        )

    return convert


def _label(task: GlueTask, value: float) -> str | float | None:
    """The hub numbers the classes in the order of `task.labels`, and has -1 where there is no label."""
    if value == -1 or value is None:
        return None
    return value if task.labels is None else task.labels[int(value)]


def _question_table(rows: Any) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                **{name: row[name] for name in ("id", "title", "context", "question")},
                "answers": [
                    {"text": text, "answer_start": start}
                    for text, start in zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
                ],
            }
            for row in rows
        ],
        QUESTION_ANSWERING,
    )
