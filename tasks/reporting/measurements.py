"""Everything the stages measured, read into one tidy table: a row is one number (or word) with where it stands."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bertcore.errors import ArtifactError

REQUIRED = ("corpus", "sources", "tokenizer", "mask", "pretrain")
OPTIONAL = ("contamination", "minimal_pairs", "embed", "timing/pretrain")
CURVES = ("curves/pretrain_train", "curves/pretrain_eval")

_COLUMNS = ["source", "group", "name", "step", "value", "text"]
_STAGES = {"sources": "corpus", "curves": "pretrain", "timing": "pretrain"}

Row = tuple[str, str, str, int | None, float | None, str | None]


@dataclass(frozen=True)
class Measurements:
    """The numbers of one run of the pipeline."""

    table: pd.DataFrame
    """Columns `source` (the file below metrics/, without its ending), `group` (the keys that lead to the entry, joined
    by `/`), `name` (its own key), `step` (of curves, else missing), and `value` for numbers or `text` for words."""
    tasks: tuple[str, ...]
    """The fine-tuning tasks, in the order of params.yaml."""

    @classmethod
    def read(cls, directory: Path, tasks: Sequence[str]) -> "Measurements":
        """The files below `directory` that concern the pre-training and `tasks`; others are leftovers of earlier runs.

        `ArtifactError` where a file that every run has is missing, or one is damaged.
        """
        required = [*REQUIRED, *(f"finetune/{task}" for task in tasks)]
        optional = [*OPTIONAL, *(f"{part}/{task}" for task in tasks for part in ("examples", "timing/finetune"))]
        rows: list[Row] = []
        for source in [*required, *optional]:
            path = directory / f"{source}.json"
            if path.is_file():
                rows.extend(_flatten(source, "", _read_json(path)))
            elif source in required:
                raise ArtifactError(f"{path}: no such file, expected metrics; run `dvc repro {_stage(source)}`")
        for source in CURVES:
            path = directory / f"{source}.csv"
            if path.is_file():
                rows.extend(_read_curve(source, path))
        table = pd.DataFrame(rows, columns=_COLUMNS)
        return cls(table.astype({"step": "Int64", "value": "float64", "text": "object"}), tuple(tasks))

    def has(self, source: str, group: str | None = None, name: str | None = None) -> bool:
        return not self._select(source, group, name).empty

    def numbers(self, source: str, group: str = "") -> dict[str, float]:
        """The numbers directly in `group`, in the order of their file; empty where there are none."""
        found = self._select(source, group).dropna(subset=["value"])
        return dict(zip(found["name"], found["value"], strict=True))

    def number(self, source: str, group: str, name: str) -> float:
        """One number; `ArtifactError` where it is missing."""
        return float(self._one(source, group, name, "value"))

    def words(self, source: str, group: str = "") -> dict[str, str]:
        """The entries directly in `group` that are no numbers."""
        found = self._select(source, group).dropna(subset=["text"])
        return dict(zip(found["name"], found["text"], strict=True))

    def word(self, source: str, group: str, name: str) -> str:
        """One entry that is no number; `ArtifactError` where it is missing."""
        return str(self._one(source, group, name, "text"))

    def groups(self, source: str) -> list[str]:
        """The groups of a file, in its order."""
        return list(self._select(source)["group"].unique())

    def below(self, source: str, above: str) -> dict[str, dict[str, float]]:
        """The numbers of every group below the group `above` that has some, by the rest of its name."""
        start, found = f"{above}/", self._select(source).dropna(subset=["value"])
        groups = found[found["group"].str.startswith(start)].groupby("group", sort=False)
        return {
            str(group).removeprefix(start): dict(zip(rows["name"], rows["value"], strict=True))
            for group, rows in groups
        }

    def curve(self, source: str, name: str) -> pd.Series:
        """Values by step, ascending; empty where they were not recorded."""
        found = self._select(source, None, name).dropna(subset=["value"])
        return found.set_index("step")["value"].sort_index()

    def _one(self, source: str, group: str, name: str, column: str) -> Any:
        found = self._select(source, group, name)[column].dropna()
        if found.empty:
            key = f"{group}/{name}".lstrip("/")
            raise ArtifactError(
                f"metrics/{source}.json: {key!r} is missing, expected a {'number' if column == 'value' else 'word'}; "
                f"run `dvc repro --force {_stage(source)}`"
            )
        return found.iloc[0]

    def _select(self, source: str, group: str | None = None, name: str | None = None) -> pd.DataFrame:
        chosen = self.table["source"] == source
        for column, wanted in (("group", group), ("name", name)):
            if wanted is not None:
                chosen &= self.table[column] == wanted
        return self.table[chosen]


def _flatten(source: str, group: str, values: dict[str, Any]) -> Iterator[Row]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(source, f"{group}/{key}".lstrip("/"), value)
        elif isinstance(value, list):
            yield from _flatten(
                source, f"{group}/{key}".lstrip("/"), {str(place): entry for place, entry in enumerate(value)}
            )
        elif isinstance(value, int | float):
            yield source, group, str(key), None, float(value), None
        elif value is not None:
            yield source, group, str(key), None, None, str(value)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ArtifactError(f"{path}: not valid JSON: {error}; delete it and run `dvc repro`") from None
    if not isinstance(values, dict):
        raise ArtifactError(f"{path}: found {type(values).__name__}, expected an object; delete it and run `dvc repro`")
    return values


def _read_curve(source: str, path: Path) -> Iterable[Row]:
    try:
        wide = pd.read_csv(path).astype(float)
        long = wide.melt(id_vars="step", var_name="name", value_name="value")
    except (ValueError, KeyError) as error:
        raise ArtifactError(
            f"{path}: found no curve: {' '.join(str(error).split())}; expected a column `step` and columns of numbers; "
            "delete it and run `dvc repro pretrain`"
        ) from None
    for step, name, value in zip(long["step"], long["name"], long["value"], strict=True):
        yield source, "", name, int(step), value, None


def _stage(source: str) -> str:
    """The stage that writes a file."""
    first, *rest = source.split("/")
    if first in ("finetune", "examples"):
        return f"{first}@{rest[0]}"
    return _STAGES.get(first, first)
