"""A saved model as MLflow's generic Python model, which its server asks: what it says is what `bertcore` says."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bertcore.apply.choose import Asked
from bertcore.errors import InputError
from bertcore.serving.models import Served, load

TOP = 5
"""Words for each mask, or answers to each question, where a request does not say how many."""


class Columns(Protocol):
    """What is asked: a pandas table, of which nothing more is used."""

    columns: Any

    def __getitem__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Rows:
    """A model that is asked with the columns of a table."""

    served: Served
    use: str
    """What it does: the name of the command that does the same."""

    def predict(self, table: Columns, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """A record for each row of `table`, as the command gives it.

        The columns are `text` and, for models of pairs, `pair`; for answers `question` and `context`; for choices
        `context`, `choices` (a list) and, where there is one, `question`. `params`: `top`. `InputError` for a column
        that is missing.
        """
        if self.use == "choose":
            return self.served.works["choose"](_asked(table))
        first, second = ("question", "context") if self.use == "answer" else ("text", "pair")
        items = _required(table, first)
        if self.use in ("answer", "classify", "regress") and (self.use == "answer" or second in table.columns):
            others = _required(table, second) if self.use == "answer" else _column(table, second)
            pairs = zip(items, others, strict=True)
            items = [one if other is None else (one, other) for one, other in pairs]
        more = [int((params or {}).get("top", TOP))] if self.use in ("answer", "fill-mask") else []
        found = self.served.works[self.use](items, *more)
        return [{"vector": row} for row in found] if self.use == "embed" else found


def _asked(table: Columns) -> list[Asked]:
    contexts = _required(table, "context")
    choices = [list(each) for each in _required(table, "choices")]
    questions = _column(table, "question") if "question" in table.columns else [None] * len(contexts)
    return [Asked(*row) for row in zip(contexts, choices, questions, strict=True)]


def _required(table: Columns, name: str) -> list[Any]:
    """`InputError` for an empty cell."""
    cells = _column(table, name)
    if empty := [row for row, cell in enumerate(cells) if cell is None]:
        raise InputError(f"{name}: row {empty[0]}: found nothing, expected a value; add it, or leave out the row")
    return cells


def _column(table: Columns, name: str) -> list[Any]:
    if name not in table.columns:
        raise InputError(f"{name}: found the columns {', '.join(map(str, table.columns))}, expected {name}; add it")
    cells = table[name].tolist()
    return [None if isinstance(each, float) and each != each else each for each in cells]  # pandas' NaN: left out


def _load_pyfunc(data_path: str) -> Rows:
    """MLflow calls it by this name with the model's directory; `ArtifactError` where that is no whole model."""
    served = load(Path(data_path))
    return Rows(served, served.description.command)
