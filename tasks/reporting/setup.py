"""The report's section on what the encoder was made from: the parameters that shaped it, and the hashes of its data."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.reporting.document import Paragraph, Section, Table

PARAMETERS_NOTE = (
    "As `params.yaml` has them, with what the recipe fills in; what is not named here has its default, listed in "
    "`docs/params.md`."
)
HASHES_NOTE = (
    "DVC's hashes, as `dvc.lock` records them: with the commit of that file `dvc pull` brings back exactly these."
)
_SECTIONS = ("corpus", "tokenizer", "shards", "mask", "pretrain")


@dataclass(frozen=True)
class Setup:
    """What the encoder was made from and by, which no metric tells."""

    params: Mapping[str, Any]
    """params.yaml, completed by its recipe."""
    hashes: Mapping[str, str]
    """Path of what the stages wrote -> DVC's hash."""

    @property
    def recipe(self) -> str | None:
        return self.params.get("recipe")

    def section(self) -> Section:
        named = {name: self.params[name] for name in ("recipe", *_SECTIONS) if self.params.get(name) is not None}
        rows = [[f"`{key}`", f"`{value}`"] for key, value in _flattened(named)]
        hashes = [[f"`{path}`", f"`{digest}`"] for path, digest in self.hashes.items()]
        parameters = Table(("Parameter", "Value"), rows, left=("Value",))
        data = Table(("Data", "Hash"), hashes, left=("Hash",))
        recorded = (Paragraph(HASHES_NOTE), data) if hashes else ()
        return Section("Setup", [Paragraph(PARAMETERS_NOTE), parameters, *recorded])


def _flattened(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key and value of all that is given; a list is one value."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{above}{key}.")
        else:
            several = isinstance(value, list) and value
            yield f"{above}{key}", ", ".join(map(_word, value)) if several else _word(value)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
