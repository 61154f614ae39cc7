"""What every task's data looks like after reading: an `ExampleSet`, kept as a Parquet file per split + `task.json`."""

import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.errors import ArtifactError
from bertcore.files import replace_directory, write_json

TASK_FILE = "task.json"

ANSWERS = pa.list_(pa.struct([("text", pa.string()), ("answer_start", pa.int32())]))
CLASSIFICATION = pa.schema(
    [("id", pa.string()), ("text_a", pa.string()), ("text_b", pa.string()), ("label", pa.string())]
)
MULTI_LABEL = pa.schema(
    [("id", pa.string()), ("text_a", pa.string()), ("text_b", pa.string()), ("labels", pa.list_(pa.string()))]
)
REGRESSION = pa.schema([("id", pa.string()), ("text_a", pa.string()), ("text_b", pa.string()), ("label", pa.float64())])
TAGGING = pa.schema([("id", pa.string()), ("words", pa.list_(pa.string())), ("tags", pa.list_(pa.string()))])
MULTIPLE_CHOICE = pa.schema(
    [
        ("id", pa.string()),
        ("context", pa.string()),
        ("question", pa.string()),
        ("choices", pa.list_(pa.string())),
        ("label", pa.int64()),
    ]
)
QUESTION_ANSWERING = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("context", pa.string()),
        ("question", pa.string()),
        ("answers", ANSWERS),
    ]
)


@dataclass(frozen=True, kw_only=True)
class ExampleSet:
    """One task's examples. Texts are as their files have them; nothing is tokenised or truncated."""

    family: str
    """A key of `bertcore.finetune.families.FAMILIES`; regression is classification without labels."""
    labels: list[str] | None
    """Class or tag names, in the official order where there is one, else sorted; None for regression, questions and
    choices, whose label is the place of the right one, from 0."""
    metrics: list[str]
    """Names as in `bertcore.evaluation`; the first is the task's headline."""
    splits: dict[str, pa.Table]
    """"train", "dev" and what else there is, such as "test" (its labels may be null) or "dev_mismatched"."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Reason -> number of examples that were left out or mended, over all splits."""
    split_metrics: dict[str, list[str]] = field(default_factory=dict)
    """Split -> its metrics, for those that are scored otherwise than the task, as GLUE's diagnostic set is."""

    def __post_init__(self) -> None:
        schema = schema_of(self.family, self.labels)
        for name, table in self.splits.items():
            if not table.schema.equals(schema):
                raise ValueError(f"split {name!r} has the columns {table.schema}, expected {schema}")

    def metrics_of(self, split: str) -> list[str]:
        """The metrics that `split` is scored by."""
        return self.split_metrics.get(split, self.metrics)


def in_train(example_set: ExampleSet) -> dict[str, int]:
    """Split -> how many of its examples stand in train, too, whatever their labels; of all splits but train."""
    known = set(_inputs(example_set.splits["train"]))
    others = ((split, table) for split, table in example_set.splits.items() if split != "train")
    return {split: sum(each in known for each in _inputs(table)) for split, table in others}


def _inputs(table: pa.Table) -> Iterator[str]:
    """What a model is given of each example."""
    columns = [table[name].to_pylist() for name in table.column_names if name not in _NO_INPUT]
    return map(repr, zip(*columns, strict=True))


_NO_INPUT = ("id", "title", "label", "labels", "tags", "answers")


def composed(label: str) -> str:
    """A label as it is kept and compared: in Unicode's composed form (NFC), as é may be one character or two."""
    return unicodedata.normalize("NFC", label)


def schema_of(family: str, labels: list[str] | None) -> pa.Schema:
    """The columns of every split's table."""
    return REGRESSION if family == "classification" and labels is None else SCHEMAS[family]


def write(example_set: ExampleSet, directory: Path) -> None:
    """Write `SPLIT.parquet` files and `task.json` into `directory`, which is replaced as a whole once all are on
    disk."""
    with replace_directory(directory) as beside:
        for name, table in sorted(example_set.splits.items()):
            pq.write_table(table, beside / f"{name}.parquet", compression="zstd")
        write_json(beside / TASK_FILE, _description(example_set))


def read(directory: Path) -> ExampleSet:
    """What `write` wrote; `ArtifactError` where a file is missing or damaged."""
    path = directory / TASK_FILE
    try:
        task = json.loads(path.read_text(encoding="utf-8"))
        splits = {name: _read_table(directory / f"{name}.parquet") for name in task["splits"]}
        return ExampleSet(
            family=task["family"],
            labels=task["labels"],
            metrics=task["metrics"],
            splits=splits,
            dropped=task["dropped"],
            split_metrics=task["split_metrics"],
        )
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{error.filename or directory}: not found, expected the output of stage examples; run `dvc repro examples`"
        ) from None
    except (ValueError, KeyError, pa.ArrowException) as error:
        raise ArtifactError(
            f"{directory}: damaged ({str(error).splitlines()[0]}), expected the output of stage examples; "
            f"delete it and run that stage again"
        ) from None


def _read_table(path: Path) -> pa.Table:
    with path.open("rb") as file:  # and not by name, whose absence pyarrow reports without naming the file
        return pq.read_table(file)


def _description(example_set: ExampleSet) -> dict[str, Any]:
    return {
        "family": example_set.family,
        "labels": example_set.labels,
        "metrics": example_set.metrics,
        "splits": {name: table.num_rows for name, table in sorted(example_set.splits.items())},
        "dropped": dict(sorted(example_set.dropped.items())),
        "split_metrics": example_set.split_metrics,
    }


SCHEMAS: dict[str, pa.Schema] = {
    "classification": CLASSIFICATION,
    "multi_label": MULTI_LABEL,
    "tagging": TAGGING,
    "question_answering": QUESTION_ANSWERING,
    "multiple_choice": MULTIPLE_CHOICE,
}
"""By the head family; classification without labels is `REGRESSION`."""
