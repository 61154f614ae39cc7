"""Texts or pairs of texts with a label, several labels or a number, from any CSV, TSV, JSONL or Parquet file."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from bertcore.compressed import parse_json
from bertcore.config import suggest
from bertcore.errors import InputError
from bertcore.examples.bad_rows import (
    EMPTY_TEXT,
    NO_LABEL,
    UNKNOWN_LABEL,
    UNSEEN_LABEL,
    BadRowError,
    BadRows,
    OnError,
    has_words,
)
from bertcore.examples.cells import (
    HIDDEN,
    cell_of,
    examples_of,
    has_label,
    name_of,
    require_columns,
    require_distinct,
    score_of,
    some,
    text_of,
    whole_number,
)
from bertcore.examples.schema import ExampleSet, composed, schema_of
from bertcore.examples.splits import SplitOptions, find_splits, first_of, with_dev
from bertcore.examples.table_rows import READERS, Row, Rows, TextLayout, read_rows

BROKEN_LABEL = "label with a tab or a line break"

METRICS = {
    "classification": ("accuracy", "macro_f1", "f1", "mcc"),
    "multi_label": ("micro_f1", "macro_f1", "exact_match"),
    "regression": ("pearson", "spearmanr"),
}
"""Kind -> the metrics that it may have."""

_DEFAULT_METRICS = {
    "classification": ["accuracy", "macro_f1"],
    "multi_label": ["micro_f1", "macro_f1", "exact_match"],
    "regression": ["pearson", "spearmanr"],
}


@dataclass(frozen=True, kw_only=True)
class TableOptions(TextLayout, SplitOptions):
    """Which columns hold what."""

    kind: Literal["classification", "multi_label", "regression"] = "classification"
    """One label for each example, any number of labels, or a number."""
    text_column: str = "text"
    """Name of the column with the text; without a header, its number from 0."""
    text_pair_column: str | None = None
    """Name (or number) of the column with the second text of a pair; null: there are no pairs."""
    label_column: str = "label"
    """Name (or number) of the column with the label, the labels or the number; a test file may go without."""
    label_separator: str = ","
    """What stands between the labels of a `multi_label` cell; there may be a list instead, whose labels may hold it: in
    JSONL, Parquet and the hub, and as JSON or Python write one in the others."""
    labels: list[str] | None = None
    """The labels, in the order that their numbers in the model have; null: those of train, sorted."""
    metrics: list[str] | None = None
    """Names of metrics, the first of which is the task's headline; null: accuracy and macro_f1 (classification),
    micro_f1, macro_f1 and exact_match (multi_label), or pearson and spearmanr (regression)."""
    on_error: OnError = "strict"
    """What becomes of a bad row. `strict`: it is named and ends the stage; `skip`: it is left out and counted."""

    def __post_init__(self) -> None:
        TextLayout.__post_init__(self)
        SplitOptions.__post_init__(self)
        require_distinct(self, "text_column", "text_pair_column", "label_column")
        for metric in self.metrics or []:
            if metric not in METRICS[self.kind]:
                raise ValueError(f"metrics: found {metric!r} for {self.kind}; {suggest(metric, METRICS[self.kind])}")
        if self.metrics is not None and not 0 < len(set(self.metrics)) == len(self.metrics):
            raise ValueError(f"metrics: found {self.metrics}, expected one or more, each of them once, or null")
        if self.labels is not None and self.kind == "regression":
            raise ValueError(f"labels: found {self.labels} with kind regression, expected null; remove it")
        if self.labels is not None:
            object.__setattr__(self, "labels", list(map(composed, self.labels)))
        names, least = set(self.labels or ()), 2 if self.kind == "classification" else 1
        if self.labels is not None and (len(names) < max(len(self.labels), least) or "" in names):
            raise ValueError(
                f"labels: found {self.labels}, expected {least} or more names, each of them once, or null for train's"
            )
        if not self.label_separator:
            raise ValueError("label_separator: found nothing, expected what stands between two labels, such as ','")


def read(directory: Path, options: TableOptions) -> ExampleSet:
    """The files of `directory` as one task; see `splits` for which file is which split."""
    paths = find_splits(directory, options, tuple(READERS))
    return from_rows({split: Rows(str(path), read_rows(path, options)) for split, path in paths.items()}, options)


def from_rows(splits: Mapping[str, Rows], options: TableOptions) -> ExampleSet:
    """The rows of each split, train first, as one task."""
    bad = BadRows(on_error=options.on_error)
    where = {split: rows.where for split, rows in splits.items()}
    rows: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for split, given in splits.items():
        hidden = _hidden(rows["train"], options) if split == "test" else ()
        rows[split] = _read(given, options, split, bad, hidden)
    labels = None if options.kind == "regression" else options.labels or _labels(rows["train"], options, where["train"])
    metrics = options.metrics or _DEFAULT_METRICS[options.kind]
    _check_metrics(metrics, labels, where["train"])
    family = "multi_label" if options.kind == "multi_label" else "classification"
    tables = {}
    for split, of_split in rows.items():
        kept = of_split if labels is None else _known(of_split, labels, options, where[split], bad)
        tables[split] = pa.Table.from_pylist([row for _, row in some(kept, where[split])], schema_of(family, labels))
    tables = with_dev(tables, options, where["train"])
    return ExampleSet(
        family=family,
        labels=labels,
        metrics=metrics,
        splits=tables,
        dropped=dict(bad.counts),
    )


def _hidden(train: Iterable[tuple[int, dict[str, Any]]], options: TableOptions) -> Collection[str]:
    """What stands for labels that are not told: -1 too, where that is none of train's."""
    known = options.kind == "regression" or any(label in HIDDEN for _, example in train for label in _of(example))
    return HIDDEN[:1] if known else HIDDEN


def _read(
    rows: Rows, options: TableOptions, split: str, bad: BadRows, hidden: Collection[str]
) -> list[tuple[int, dict[str, Any]]]:
    """Numbered rows of the family's schema; `id` counts the split's rows from 0, those left out included. A test split
    without any label, or with `hidden` ones alone, is unlabelled."""
    kept = replace(rows, numbered=list(rows.numbered)) if split == "test" else rows
    labelled = split != "test" or any(has_label(row, options.label_column, hidden) for _, row in kept.numbered)
    names = {"text_column": options.text_column, "text_pair_column": options.text_pair_column}
    names |= {"label_column": options.label_column} if labelled else {}
    return examples_of(
        kept,
        bad,
        check=lambda first: require_columns(first, names, options, rows.where),
        make=lambda row: _example(row, options, labelled),
    )


def _example(row: Row, options: TableOptions, labelled: bool) -> dict[str, Any]:
    text_a = text_of(row, options.text_column)
    text_b = None if options.text_pair_column is None else text_of(row, options.text_pair_column)
    if not has_words((text_a, text_b or "")):
        raise BadRowError(EMPTY_TEXT, "found an empty text, expected words")
    key = "labels" if options.kind == "multi_label" else "label"
    label = _LABELS[options.kind](cell_of(row, options.label_column), options) if labelled else None
    return {"text_a": text_a, "text_b": text_b, key: label}


def _label(cell: Any, options: TableOptions) -> str:
    label = name_of(cell)
    if not label:
        raise BadRowError(NO_LABEL, "found no label, expected one")
    if found := [character for character in label if character in "\t\r\n"]:
        message = f"found {found[0]!r} in the label {label!r}, expected none, as predictions are a row each"
        raise BadRowError(BROKEN_LABEL, message)
    return label


def _label_set(cell: Any, options: TableOptions) -> list[str]:
    if cell is None or cell != cell:
        raise BadRowError(NO_LABEL, "found null, expected labels, or an empty list or text where none fits")
    cells = cell if isinstance(cell, list) else _cells(name_of(cell), options.label_separator)
    return sorted({name_of(each) for each in cells} - {""})


def _cells(text: str, separator: str) -> list[Any]:
    """The labels of a text, which may be a list, of JSON or as Python (and pandas, into a .csv) writes one."""
    for parse in (parse_json, ast.literal_eval) if text.startswith("[") else ():
        try:
            found = parse(text)
        except (ValueError, SyntaxError, TypeError):
            continue
        if isinstance(found, list) and not _SIDE_BY_SIDE.search(text):
            return found
    if _ENCLOSED.match(text):
        message = f"found {text[:60]!r}, expected a list as JSON or Python writes one (numpy's has no commas)"
        raise BadRowError(BROKEN_LABEL, message)
    return text.split(separator)


_SIDE_BY_SIDE = re.compile(r"""['"]\s+['"]""")
"""As numpy writes texts; Python joins them."""
_ENCLOSED = re.compile(r"""[\[({]\s*['"].*[\])}]$|\[[\d.\s]+\]$""", re.DOTALL)
"""A tuple, a set or an array of several texts or numbers."""


_LABELS: dict[str, Callable[[Any, TableOptions], Any]] = {
    "classification": _label,
    "multi_label": _label_set,
    "regression": lambda cell, options: score_of(cell),
}


def _of(example: Mapping[str, Any]) -> list[str]:
    """The labels of an example: one, or any number, or none where its file has none."""
    return (example["labels"] if "labels" in example else [example["label"]] if example["label"] else None) or []


def _labels(train: Iterable[tuple[int, dict[str, Any]]], options: TableOptions, where: str) -> list[str]:
    """The labels of train; whole numbers in their order, then names in theirs."""
    found = {label for _, example in train for label in _of(example)}
    if len(found) < (2 if options.kind == "classification" else 1):
        raise InputError(
            f"{where}: found {', '.join(map(repr, found)) or 'no label'} as the only label of train, expected more; "
            "correct the option label_column"
        )
    if options.kind == "classification":
        _check_repeated(Counter(label for _, example in train for label in _of(example)), where)
    numbers = {label: whole_number(label) for label in found}
    return sorted(found, key=lambda label: (numbers[label] is None, numbers[label] or 0, label))


def _check_repeated(counts: Counter[str], where: str) -> None:
    """`InputError` where most labels stand there once, as numbers do and names of rows."""
    if len(counts) > _MANY_LABELS and sum(number == 1 for number in counts.values()) > len(counts) / 2:
        raise InputError(
            f"{where}: found {len(counts):,} labels in {counts.total():,} examples, most of them once, such as "
            f"{next(iter(counts))!r}, expected classes; where they are numbers set the option kind: regression, else "
            "correct label_column, or name the classes with the option labels"
        )


_MANY_LABELS, _NAMED = 20, 20


def _check_metrics(metrics: Sequence[str], labels: list[str] | None, where: str) -> None:
    if "f1" in metrics and not set(labels or ()) <= {"0", "1"}:
        raise InputError(
            f"{where}: metrics: found f1, which scores the label 1 against 0, for the labels "
            f"{', '.join(map(repr, (labels or [])[:12]))}; rename them to 0 and 1, or take macro_f1"
        )


def _known(
    rows: Iterable[tuple[int, dict[str, Any]]], labels: list[str], options: TableOptions, where: str, bad: BadRows
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows whose labels all belong to the task."""
    known = set(labels)
    for number, example in rows:
        unknown = [label for label in _of(example) if label not in known]
        if not unknown:
            yield number, example
            continue
        reason, whose = (UNSEEN_LABEL, "those of train") if options.labels is None else (UNKNOWN_LABEL, "one of")
        separated = f" (label_separator: {options.label_separator!r})" if options.kind == "multi_label" else ""
        message = f"found the label {unknown[0]!r}{separated}, expected {whose}: {first_of(labels, _NAMED)}"
        bad.add(f"{where}:{number}", BadRowError(reason, message))
