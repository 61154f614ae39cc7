"""Tasks from the Hugging Face hub: GLUE and SQuAD, such as `hf://nyu-mll/glue/cola` and `hf://rajpurkar/squad`, in the
columns that they have there, and tables of texts, choices or tagged words in columns that the options name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bertcore import hub
from bertcore.config import suggest
from bertcore.errors import ConfigError, InputError
from bertcore.examples.bad_rows import EMPTY_TEXT, NO_LABEL, UNKNOWN_LABEL, BadRowError, BadRows, has_words
from bertcore.examples.conll import ConllOptions
from bertcore.examples.formats import parse_options
from bertcore.examples.glue import TASKS, GlueTask
from bertcore.examples.hub_rows import read_choices, read_questions, read_table, read_tagged
from bertcore.examples.schema import ExampleSet, schema_of

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


BY_COLUMNS: dict[str, Callable[[str, Mapping[str, Any], Any], ExampleSet]] = {
    "table": read_table,
    "conll": read_tagged,
    "choices": read_choices,
    "squad": read_questions,
}

READABLE = (*(f"glue/{name}" for name in TASKS), *BY_COLUMNS)
"""The formats that can be read from the hub."""


def check_format(uri: str, format_name: str) -> None:
    """Raise `ConfigError` for a URI of another form than `hub.FORM`, and for a format that the hub's sets do not
    have."""
    hub.parse_uri(uri)
    if format_name not in READABLE:
        raise ConfigError(
            f"{uri}: the format {format_name!r} cannot be read from the hub; {suggest(format_name, READABLE)}"
        )


def check_options(uri: str, options: Any) -> None:
    """`ConfigError` where the options of a format, as its dataclass, ask for what no set on the hub has."""
    if isinstance(options, ConllOptions) and options.unit == "document":
        raise ConfigError(
            f"{uri}: found unit: document, expected sentence: a row of a data set does not say where documents begin; "
            "download it as files with lines -DOCSTART-, or take unit: sentence"
        )


def read_hub(uri: str, format_name: str, options: Mapping[str, Any] | None = None) -> ExampleSet:
    """The data set at `uri` (`hf://ORG/NAME[/CONFIG][@REVISION]`): of `glue/TASK` and `squad` the columns are known, of
    `table`, `choices` and `conll` they are named by `options`, which are as in params.yaml and may name splits, too.

    `InputError` where the set cannot be loaded or has other columns, or for a bad row that is not to be skipped.
    """
    check_format(uri, format_name)
    parsed = parse_options(format_name, options or {}, f"options of {format_name}")
    check_options(uri, parsed)
    if format_name in BY_COLUMNS:
        return BY_COLUMNS[format_name](uri, hub.load(hub.parse_uri(uri)), parsed)
    task, bad = format_name.removeprefix("glue/"), BadRows(on_error=parsed.on_error)
    loaded = dict(_splits(uri, _load(uri, task), task))
    try:
        tables = {
            split: _glue_table(task, rows, f"{uri}: {split}", split in ("train", "dev"), bad)
            for split, rows in loaded.items()
        }
    except KeyError as error:
        raise InputError(
            f"{uri}: no column {error}, expected the columns of {format_name}; correct uri or format"
        ) from None
    metrics = {split: each for split, each in TASKS[task].split_metrics.items() if split in tables}
    return ExampleSet(
        family="classification",
        labels=TASKS[task].labels,
        metrics=TASKS[task].metrics,
        splits=tables,
        dropped=dict(bad.counts),
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


def _glue_table(name: str, rows: Iterable[Mapping[str, Any]], where: str, labelled: bool, bad: BadRows) -> pa.Table:
    """`id` is the row's number from 0, as in GLUE's submissions."""
    examples = []
    for index, row in enumerate(rows):
        try:
            examples.append({"id": str(index), **_glue_row(name, row, labelled)})
        except BadRowError as error:
            bad.add(f"{where}:{index + 1}", error)
    return pa.Table.from_pylist(examples, schema_of("classification", TASKS[name].labels))


def _glue_row(name: str, row: Mapping[str, Any], labelled: bool) -> dict[str, Any]:
    texts = [row[column] or "" for column in GLUE_COLUMNS[name]]
    if not has_words(texts):
        raise BadRowError(EMPTY_TEXT, "found an empty text, expected words")
    label = _label(TASKS[name], row["label"])
    if labelled and label is None:
        raise BadRowError(NO_LABEL, f"found the label {row['label']!r}, expected one that is not hidden")
    return {"text_a": texts[0], "text_b": texts[1] if len(texts) == 2 else None, "label": label}


def _label(task: GlueTask, value: float | None) -> str | float | None:
    """The hub numbers the classes in the order of `task.labels`, and has -1 where there is no label."""
    if value is None or value == -1:
        return None
    if task.labels is None:
        return value
    if not 0 <= value < len(task.labels):
        raise BadRowError(UNKNOWN_LABEL, f"found the label {value!r}, expected 0 to {len(task.labels) - 1}")
    return task.labels[int(value)]
