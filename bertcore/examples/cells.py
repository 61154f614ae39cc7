"""What stands in the cells of a row: a text, a label, a number; and the examples that are made of rows."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from bertcore.errors import InputError
from bertcore.examples.bad_rows import NO_LABEL, NOT_TEXT, UNKNOWN_LABEL, WRONG_COLUMNS, BadRowError, BadRows
from bertcore.examples.schema import composed
from bertcore.examples.table_rows import Row, Rows, TextLayout, advice_on

Example = TypeVar("Example")

NO_NAME = "label that is no name"
HIDDEN = ("", "-1")
"""What stands for a label that is not told, as in the test splits of data sets on the hub."""
_MOST_DIGITS = 18
"""Of a number that stands for a class or a place."""


def require_columns(first: Row, named: Mapping[str, str | None], layout: TextLayout, where: str) -> None:
    """`InputError` naming the option if a column of `named`, option -> name, is missing in the first row at `where`."""
    for option, name in named.items():
        if name is not None and name not in first:
            remedy = f"correct the option {option}{'' if layout.header else ' (there is no header: give its number)'}"
            raise InputError(
                f"{where}: no column {name!r} among {', '.join(map(repr, list(first)[:12]))}; "
                f"{advice_on(list(first), name) or remedy}"
            )


def require_distinct(options: Any, *names: str) -> None:
    """`ValueError` where two of the options `names` give one column."""
    given: dict[str, str] = {}
    for name in names:
        columns = getattr(options, name)
        for column in columns if isinstance(columns, list) else [columns]:
            if column is not None and (other := given.setdefault(column, name)) != name:
                raise ValueError(f"{name}: found {column!r} as in {other}, expected a column of its own; correct one")


def cell_of(row: Row, name: str) -> Any:
    """The cell in the column `name`; `BadRowError` where the row has none."""
    if name not in row:  # in a line of JSONL; the columns of all other files are the same in every row
        raise BadRowError(WRONG_COLUMNS, f"found no field {name!r}, expected one in every row")
    return row[name]


def text_of(row: Row, name: str) -> str:
    """The text in the column `name`, "" where it is null; `BadRowError` for anything else."""
    cell = cell_of(row, name)
    if cell is not None and not isinstance(cell, str):
        raise BadRowError(NOT_TEXT, f"found {cell!r} ({type(cell).__name__}) in {name!r}, expected a text")
    return cell or ""


def name_of(cell: Any) -> str:
    """A label as it is kept, "" where there is none; `BadRowError` for what cannot be one."""
    if isinstance(cell, (list, dict, bytes)):
        message = f"found the label {str(cell)[:60]} ({type(cell).__name__}), expected a name or a number"
        raise BadRowError(NO_NAME, message)
    if cell is None or cell != cell:  # NaN is pandas' for a missing cell
        return ""
    return composed(str(_whole(cell)).strip())


def score_of(cell: Any) -> float:
    """The label of a regression; `BadRowError` where it is no number. JSON's true and Python's 1_000 are none."""
    try:
        number = math.nan if isinstance(cell, bool) or "_" in str(cell) else float(cell)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        reason = UNKNOWN_LABEL if name_of(cell) else NO_LABEL
        raise BadRowError(reason, f"found the score {cell!r}, expected a number such as 2.5")
    return number


def whole_number(text: str) -> int | None:
    """The number that a label of digits is; None for any other label, and for digits that nobody counts to."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def has_label(row: Row | BadRowError, column: str, hidden: Collection[str]) -> bool:
    """Whether there is a label in `column`, and not one of `hidden`, which stand for none."""
    cell = None if isinstance(row, BadRowError) else row.get(column)
    if isinstance(cell, list):
        return any(each is not None for each in cell)
    return cell is not None and cell == cell and str(_whole(cell)).strip() not in hidden


def _whole(cell: Any) -> Any:
    """As pandas writes whole numbers of a column where a cell is missing."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def examples_of(
    rows: Rows, bad: BadRows, check: Callable[[Row], None], make: Callable[[Row], dict[str, Any]]
) -> list[tuple[int, dict[str, Any]]]:
    """What `make` makes of each row, with the row's number; `id` counts the rows from 0, the `bad` ones included.
    `check` is asked about the columns of the first row that can be read. `InputError` where no row is usable."""
    found: list[tuple[int, dict[str, Any]]] = []
    is_first = True
    for index, (number, row) in enumerate(rows.numbered):
        try:
            if isinstance(row, BadRowError):
                raise row
            if is_first:
                check(row)
                is_first = False
            found.append((number, {"id": str(index), **make(row)}))
        except BadRowError as error:
            bad.add(f"{rows.where}:{number}", error)
    return some(found, rows.where)


def some(rows: Iterable[Example], where: str) -> list[Example]:
    """All of `rows`; `InputError` naming the file at `where` if there are none."""
    if not (found := list(rows)):
        raise InputError(f"{where}: found no usable row, expected some; check the file and the options of its columns")
    return found
