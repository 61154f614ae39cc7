"""The GLUE tasks in their original TSV layouts, as the benchmark's download script leaves them.

Their oddities: CoLA has no header, MRPC begins with a byte-order mark, quotes are ordinary characters, blank last lines
are nothing, test files have no labels, QQP has a few rows of too few columns, which every published reader skips, and
the diagnostic set AX, made for MNLI's models, stands among MNLI's files or in a folder of them (`diagnostic`, `AX`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from bertcore.compressed import COMPRESSIONS, plain_name, read_lines
from bertcore.errors import InputError
from bertcore.examples.bad_rows import (
    EMPTY_TEXT,
    UNKNOWN_LABEL,
    WRONG_COLUMNS,
    BadRowError,
    BadRows,
    OnError,
    decode,
    has_words,
)
from bertcore.examples.cells import score_of, some
from bertcore.examples.schema import ExampleSet, schema_of
from bertcore.examples.splits import log_unused

_LABELLED = ("train", "dev")
"""Splits that must be there and have labels."""
SPLIT_FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}


@dataclass(frozen=True, kw_only=True)
class GlueTask:
    """One task: where its texts and labels stand, and how it is scored."""

    text_a: tuple[str, ...]
    """Names that the column of the first text may have."""
    text_b: tuple[str, ...] = ()
    """The same for the second text; empty for single sentences."""
    label: tuple[str, ...] = ("label",)
    """The same for the label."""
    labels: list[str] | None
    """In the order of the data sets on the hub, so that a label's position is its number there; None for regression."""
    metrics: list[str]
    """Names as in `bertcore.evaluation`."""
    columns: tuple[str, ...] = ()
    """Columns of files without a header, which are told by their first cell not being `index`."""
    skips_short_rows: bool = False
    """Rows of a wrong number of columns are part of the official files and always skipped."""
    files: dict[str, tuple[str, ...]] | None = None
    """Split -> file names, the first found is read; None stands for `SPLIT_FILES`."""
    split_metrics: dict[str, list[str]] = field(default_factory=dict)
    """Split -> its own metrics."""


@dataclass(frozen=True, kw_only=True)
class GlueOptions:
    """How to read the files."""

    on_error: OnError = "strict"
    """What becomes of a bad row. `strict`: it is named and ends the stage; `skip`: it is left out and counted."""


@dataclass(frozen=True)
class _Columns:
    width: int
    text_a: int
    text_b: int | None
    label: int | None


def read(name: str, directory: Path, options: GlueOptions) -> ExampleSet:
    """The task `name` of `TASKS` from `directory`, which holds `train.tsv`, `dev.tsv` … (plain, `.gz` or `.zst`).

    Train and dev must be there and have labels. Bad rows are those with a wrong number of columns, an unknown label, no
    text or bytes that are not UTF-8.
    """
    task, bad = TASKS[name], BadRows(on_error=options.on_error)
    splits = {
        split: read_file(name, path, labelled=split in _LABELLED, bad=bad)
        for split, path in _split_files(name, directory).items()
    }
    return ExampleSet(
        family="classification",
        labels=task.labels,
        metrics=task.metrics,
        splits=splits,
        dropped=dict(bad.counts),
        split_metrics={split: metrics for split, metrics in task.split_metrics.items() if split in splits},
    )


def _split_files(name: str, directory: Path) -> dict[str, Path]:
    """Split -> file; the other TSV files of `directory` are named in the log."""
    found: dict[str, Path] = {}
    for split, names in (TASKS[name].files or SPLIT_FILES).items():
        path = _find(directory, names)
        if path is not None:
            found[split] = path
        elif split in _LABELLED:
            raise InputError(
                f"{directory}: no {names[0]} (nor .gz, .zst), expected GLUE's layout of {name}; "
                f"found {', '.join(sorted(item.name for item in directory.iterdir())) or 'nothing'}"
            )
    files = [path for path in directory.iterdir() if plain_name(path).endswith(".tsv")]
    log_unused(directory, files, found.values())
    return found


def read_file(name: str, path: Path, *, labelled: bool = True, bad: BadRows | None = None) -> pa.Table:
    """One TSV file. `id` is the row's number from 0, as in GLUE's submissions; labels are
    null where `labelled` is off and the file has none. Without `bad`, a bad row raises `InputError`."""
    task, bad = TASKS[name], BadRows() if bad is None else bad
    found: list[dict[str, Any]] = []
    columns: _Columns | None = None
    total = 0
    for number, line in enumerate(read_lines(path), start=1):
        if columns is None:
            columns, is_header = _layout(task, _first_cells(line, path), path, labelled)
            if is_header:
                continue
        if not line:
            continue
        total += 1
        try:
            cells = decode(line, first=number == 1).split("\t")
            found.append({"id": str(total - 1), **_row(task, columns, cells)})
        except BadRowError as error:
            expected = error.reason == WRONG_COLUMNS and task.skips_short_rows
            bad.add(f"{path}:{number}", error, always_skipped=expected)
    return pa.Table.from_pylist(some(found, str(path)), schema_of("classification", task.labels))


def _row(task: GlueTask, columns: _Columns, cells: Sequence[str]) -> dict[str, Any]:
    if len(cells) != columns.width:
        raise BadRowError(WRONG_COLUMNS, f"found {len(cells)} columns, expected {columns.width} separated by tabs")
    text_a = cells[columns.text_a]
    text_b = None if columns.text_b is None else cells[columns.text_b]
    if not has_words((text_a, text_b or "")):
        raise BadRowError(EMPTY_TEXT, "found an empty text, expected words")
    label = None if columns.label is None else parse_label(task, cells[columns.label])
    return {"text_a": text_a, "text_b": text_b, "label": label}


def parse_label(task: GlueTask, cell: str) -> str | float:
    """A label as it stands in a file, a number for regression; `BadRowError` where it is neither known nor a number."""
    if task.labels is not None:
        if cell not in task.labels:
            raise BadRowError(UNKNOWN_LABEL, f"found the label {cell!r}, expected one of: {', '.join(task.labels)}")
        return cell
    return score_of(cell)


def _first_cells(line: bytes, path: Path) -> list[str]:
    try:
        return decode(line, first=True).split("\t")
    except BadRowError as error:
        raise InputError(f"{path}:1: {error}; convert the file") from None


def _layout(task: GlueTask, first: list[str], path: Path, labelled: bool) -> tuple[_Columns, bool]:
    """Where the columns are, and whether the first row was a header."""
    is_header = not task.columns or first[0] == "index"
    names = first if is_header else list(task.columns)
    positions = [
        next((names.index(name) for name in candidates if name in names), None)
        for candidates in (task.text_a, task.text_b, task.label)
    ]
    wanted = (task.text_a, task.text_b, task.label if labelled else ())
    for candidates, position in zip(wanted, positions, strict=True):
        if candidates and position is None:
            raise InputError(
                f"{path}:1: no column {candidates[0]!r} among {', '.join(map(repr, names[:12]))}; "
                f"give the file in GLUE's original layout"
            )
    text_a, text_b, label = positions
    assert text_a is not None
    return _Columns(len(names), text_a, text_b, label), is_header


def _find(directory: Path, names: Sequence[str]) -> Path | None:
    return next(_candidates(directory, names), None)


def _candidates(directory: Path, names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        for ending in ("", *COMPRESSIONS):
            if (path := directory / f"{name}{ending}").is_file():
                yield path


_BINARY = ["0", "1"]
_ENTAILMENT = ["entailment", "not_entailment"]
_MNLI = GlueTask(
    text_a=("sentence1", "Premise"),
    text_b=("sentence2", "Hypothesis"),
    label=("gold_label", "Label"),
    labels=["entailment", "neutral", "contradiction"],
    metrics=["accuracy"],
    files={
        "train": ("train.tsv",),
        "dev": ("dev_matched.tsv",),
        "dev_mismatched": ("dev_mismatched.tsv",),
        "test": ("test_matched.tsv",),
        "test_mismatched": ("test_mismatched.tsv",),
        "ax": tuple(
            f"{folder}{name}"
            for folder in ("", "diagnostic/", "AX/")
            for name in ("diagnostic-full.tsv", "diagnostic.tsv", "AX.tsv")
        ),
    },
    split_metrics={"ax": ["mcc"]},
)

TASKS: dict[str, GlueTask] = {
    "cola": GlueTask(
        text_a=("sentence",), labels=_BINARY, metrics=["mcc"], columns=("source", "label", "mark", "sentence")
    ),
    "sst2": GlueTask(text_a=("sentence",), labels=_BINARY, metrics=["accuracy"]),
    "mrpc": GlueTask(
        text_a=("#1 String",), text_b=("#2 String",), label=("Quality",), labels=_BINARY, metrics=["accuracy", "f1"]
    ),
    "stsb": GlueTask(
        text_a=("sentence1",), text_b=("sentence2",), label=("score",), labels=None, metrics=["pearson", "spearmanr"]
    ),
    "qqp": GlueTask(
        text_a=("question1",),
        text_b=("question2",),
        label=("is_duplicate",),
        labels=_BINARY,
        metrics=["accuracy", "f1"],
        skips_short_rows=True,
    ),
    "mnli": _MNLI,
    "qnli": GlueTask(text_a=("question",), text_b=("sentence",), labels=_ENTAILMENT, metrics=["accuracy"]),
    "rte": GlueTask(text_a=("sentence1",), text_b=("sentence2",), labels=_ENTAILMENT, metrics=["accuracy"]),
    "wnli": GlueTask(text_a=("sentence1",), text_b=("sentence2",), labels=_BINARY, metrics=["accuracy"]),
}
