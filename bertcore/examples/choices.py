"""A context with choices, of which one is right, from any CSV, TSV, JSONL or Parquet file: COPA, SWAG, RACE and their
kin. A query with its candidates, one of them relevant, is such an example too."""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from bertcore.compressed import parse_json
from bertcore.examples.bad_rows import (
    EMPTY_TEXT,
    NO_LABEL,
    NOT_TEXT,
    UNKNOWN_LABEL,
    WRONG_COLUMNS,
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
    text_of,
    whole_number,
)
from bertcore.examples.schema import MULTIPLE_CHOICE, ExampleSet, composed
from bertcore.examples.splits import SplitOptions, find_splits, with_dev
from bertcore.examples.table_rows import READERS, Row, Rows, TextLayout, read_rows

FEW_CHOICES, EMPTY_CHOICE = "fewer than two choices", "empty choice"


@dataclass(frozen=True, kw_only=True)
class ChoicesOptions(TextLayout, SplitOptions):
    """Which columns hold what."""

    context_column: str = "context"
    """Name of the column with the context, or with the question where there is no other; without a header, its number
    from 0."""
    question_column: str | None = None
    """Name (or number) of the column with what is put before each choice, such as a question about the context or the
    beginning of a sentence; null: nothing."""
    choices_column: str | list[str] = "choices"
    """Name (or number) of the column with the list of choices, in CSV and TSV as JSON, `a.b` being the key b of what
    column a holds; or a list of columns with a choice each, of which the last ones may be empty."""
    label_column: str = "label"
    """Name (or number) of the column with the right choice; a test file may go without."""
    label_is: Literal["index", "number", "letter", "text", "column"] = "index"
    """How it is said: by its place from 0 (`index`) or 1 (`number`), by a letter from A, as its text, or by the name of
    its column."""
    on_error: OnError = "strict"
    """What becomes of a bad row. `strict`: it is named and ends the stage; `skip`: it is left out and counted."""

    def __post_init__(self) -> None:
        TextLayout.__post_init__(self)
        SplitOptions.__post_init__(self)
        require_distinct(self, "context_column", "question_column", "choices_column", "label_column")
        names = self.choices_column
        if isinstance(names, list) and (len(names) < 2 or len(set(names)) < len(names)):
            raise ValueError(f"choices_column: found {names}, expected two or more columns, or one with lists")
        if self.label_is == "column" and isinstance(names, str):
            raise ValueError("label_is: found 'column', expected choices_column to be a list of columns then")


def read(directory: Path, options: ChoicesOptions) -> ExampleSet:
    """The files of `directory` as one task; see `splits` for which file is which split."""
    paths = find_splits(directory, options, tuple(READERS))
    return from_rows({split: Rows(str(path), read_rows(path, options)) for split, path in paths.items()}, options)


def from_rows(splits: Mapping[str, Rows], options: ChoicesOptions) -> ExampleSet:
    """The rows of each split, train first, as one task. A test split without any label is unlabelled."""
    bad = BadRows(on_error=options.on_error)
    tables = {}
    for split, rows in splits.items():
        kept = replace(rows, numbered=list(rows.numbered)) if split == "test" else rows
        labelled = split != "test" or any(has_label(row, options.label_column, HIDDEN) for _, row in kept.numbered)
        tables[split] = table_of(kept, options, bad, labelled=labelled)
    tables = with_dev(tables, options, splits["train"].where)
    return ExampleSet(
        family="multiple_choice", labels=None, metrics=["accuracy"], splits=tables, dropped=dict(bad.counts)
    )


def table_of(rows: Rows, options: ChoicesOptions, bad: BadRows, *, labelled: bool) -> pa.Table:
    """In the schema `MULTIPLE_CHOICE`; `id` counts the rows from 0, those left out included. `InputError` where none is
    usable or a column is missing."""
    found = examples_of(
        rows,
        bad,
        check=lambda first: require_columns(first, _named(first, options, labelled), options, rows.where),
        make=lambda row: _example(row, options, labelled),
    )
    return pa.Table.from_pylist([example for _, example in found], MULTIPLE_CHOICE)


def check(context: str, choices: Sequence[str]) -> None:
    """`BadRowError` for a context without words, fewer than two choices, or an empty one."""
    if not has_words(context):
        raise BadRowError(EMPTY_TEXT, "found an empty context, expected words")
    if len(choices) < 2:
        raise BadRowError(FEW_CHOICES, f"found {len(choices)} of the choices that an example has, expected two or more")
    for place, choice in enumerate(choices):
        if not has_words(choice):
            raise BadRowError(EMPTY_CHOICE, f"found an empty choice at place {place} from 0, expected words")


def _named(row: Row, options: ChoicesOptions, labelled: bool) -> dict[str, str | None]:
    """Option -> a column that there must be."""
    columns = options.choices_column
    names = [_column(row, columns)] if isinstance(columns, str) else columns
    return {
        "context_column": options.context_column,
        "question_column": options.question_column,
        **({"label_column": options.label_column} if labelled else {}),
        "choices_column": next((name for name in names if name not in row), names[0]),
    }


def _column(row: Row, name: str) -> str:
    return name if name in row else name.partition(".")[0]


def _example(row: Row, options: ChoicesOptions, labelled: bool) -> dict[str, Any]:
    context = text_of(row, options.context_column)
    question = None if options.question_column is None else text_of(row, options.question_column)
    choices = _choices(row, options.choices_column)
    check(context, choices)
    label = _label(cell_of(row, options.label_column), choices, options) if labelled else None
    return {"context": context, "question": question, "choices": choices, "label": label}


def _choices(row: Row, columns: str | list[str]) -> list[str]:
    if isinstance(columns, list):
        texts = [text_of(row, name) for name in columns]
        while texts and not has_words(texts[-1]):
            texts.pop()
        return texts
    cell = _within(row, columns)
    found = _parsed(cell) if isinstance(cell, str) else cell
    if not isinstance(found, list) or not all(isinstance(choice, str) for choice in found):
        message = f"found {str(cell)[:60]!r} in {columns!r}, expected a list of texts, in CSV as JSON"
        raise BadRowError(NOT_TEXT, message)
    return found


def _parsed(cell: str) -> Any:
    try:
        return parse_json(cell)
    except ValueError:
        return None


def _within(row: Row, name: str) -> Any:
    """The cell of a column, or of `a.b` what the cell of a, or each of its elements, has under b."""
    column = _column(row, name)
    cell = cell_of(row, column)
    try:
        for key in filter(None, name[len(column) + 1 :].split(".")):
            cell = [each[key] for each in cell] if isinstance(cell, list) else cell[key]
    except (KeyError, TypeError):
        raise BadRowError(WRONG_COLUMNS, f"found no {name!r} in {str(row[column])[:60]}, expected it") from None
    return cell


def _label(cell: Any, choices: list[str], options: ChoicesOptions) -> int:
    label = name_of(cell)
    if not label:
        raise BadRowError(NO_LABEL, "found no label, expected one")
    place = _PLACES[options.label_is](label, choices, options.choices_column)
    if not 0 <= place < len(choices):
        message = (
            f"found the label {label!r} (label_is: {options.label_is}), expected one of the {len(choices)} choices"
        )
        raise BadRowError(UNKNOWN_LABEL, message)
    return place


def _place(label: str, names: str | Sequence[str]) -> int:
    names = list(map(composed, names))
    return names.index(label) if label in names else -1


def _numbered(label: str, first: int) -> int:
    number = whole_number(label)
    return -1 if number is None else number - first


_PLACES: dict[str, Callable[[str, list[str], str | list[str]], int]] = {
    "index": lambda label, choices, columns: _numbered(label, 0),
    "number": lambda label, choices, columns: _numbered(label, 1),
    "letter": lambda label, choices, columns: _place(label.upper(), string.ascii_uppercase),
    "text": lambda label, choices, columns: _place(label, [choice.strip() for choice in choices]),
    "column": lambda label, choices, columns: _place(label, columns),
}
"""What `label_is` -> the place of a label, from 0; another number where it is none."""
