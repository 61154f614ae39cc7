"""The docstrings that stage `corpus` wrote, and what the four tasks made from them share: order, budgets, no copies."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.errors import ArtifactError

FILE = "docstrings.parquet"
SPLITS = {"train": "train", "dev": "heldout"}  # a task's split -> the corpus split that it is made from
BUDGETS = {"train": 4000, "dev": 1000}  # examples per task at most: minutes of fine-tuning on two cores

Row = dict[str, Any]
"""An example as a row of its table."""


@dataclass(frozen=True)
class Docstring:
    """One row of `docstrings.parquet`."""

    id: str
    """Unique: module, qualified name, and a number where a name is defined more than once."""
    split: str
    module: str
    package: str
    qualname: str
    parameters: tuple[str, ...]
    docstring: str


def read_docstrings(directory: Path) -> dict[str, list[Docstring]]:
    """The docstrings of `directory` by the task's split; `ArtifactError` where the file is missing or damaged."""
    path = directory / FILE
    try:
        rows = pq.read_table(path).to_pylist()
    except FileNotFoundError:
        raise ArtifactError(
            f"{path}: not found, expected the docstrings of source pydoc; "
            "add pydoc to corpus.sources and run `dvc repro corpus`"
        ) from None
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise ArtifactError(f"{path}: damaged ({reason}); delete it and run `dvc repro corpus`") from None
    seen: Counter[str] = Counter()
    docstrings = [_docstring(row, seen) for row in rows]
    return {split: [each for each in docstrings if each.split == source] for split, source in SPLITS.items()}


def _docstring(row: dict[str, Any], seen: Counter[str]) -> Docstring:
    module = row["document_id"].partition(":")[2]
    name = f"{module}:{row['qualname']}"
    seen[name] += 1
    return Docstring(
        id=name if seen[name] == 1 else f"{name}:{seen[name]}",
        split=row["split"],
        module=module,
        package=row["package"],
        qualname=row["qualname"],
        parameters=tuple(row["parameters"]),
        docstring=row["docstring"],
    )


def draw(*parts: object) -> int:
    """A uniform 64-bit number that depends on `parts` alone, the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest(), "big")


def shuffled(docstrings: Iterable[Docstring], task: str) -> list[Docstring]:
    """In an order that depends on the ids alone, so that a budget takes an unbiased and stable sample."""
    return sorted(docstrings, key=lambda docstring: (draw(task, docstring.id), docstring.id))


def build_splits(
    docstrings: dict[str, list[Docstring]],
    groups: Callable[[list[Docstring], str], Iterator[list[Row]]],
    text_of: Callable[[Row], str],
    schema: pa.Schema,
    dropped: Counter[str],
) -> dict[str, pa.Table]:
    """Tables of at most `BUDGETS` rows. `groups` yields rows that stay together, from one split's docstrings.

    A group with a text that stands already in its split, or, for dev, anywhere in train, is dropped and counted.
    """
    tables: dict[str, pa.Table] = {}
    texts: set[str] = set()
    for split in SPLITS:
        rows: list[Row] = []
        for group in groups(docstrings[split], split):
            if len(rows) + len(group) > BUDGETS[split]:
                break
            keys = {text_of(row) for row in group}
            if keys & texts:
                dropped["copy of another example" if split == "train" else "dev copy of an example"] += len(group)
                continue
            texts |= keys
            rows.extend(group)
        tables[split] = pa.Table.from_pylist(rows, schema)
    return tables
