"""The report's section on what the encoder was made from: the parameters that shaped it, and the hashes of its data."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks import params
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

    @property
    def sources(self) -> dict[str, Mapping[str, Any]]:
        """URI -> the entry of `corpus.sources`."""
        entries = (self.params.get("corpus") or {}).get("sources", [])
        return {each["uri"]: each for each in params.source_entries(entries)}

    def section(self) -> Section:
        named = {name: self.params[name] for name in ("recipe", *_SECTIONS) if self.params.get(name) is not None}
        rows = [[f"`{key}`", f"`{_shown(value)}`"] for key, value in params.flatten(named).items()]
        hashes = [[f"`{path}`", f"`{digest}`"] for path, digest in self.hashes.items()]
        parameters = Table(("Parameter", "Value"), rows, left=("Value",))
        data = Table(("Data", "Hash"), hashes, left=("Hash",))
        recorded = (Paragraph(HASHES_NOTE), data) if hashes else ()
        return Section("Setup", [Paragraph(PARAMETERS_NOTE), parameters, *recorded])


def _shown(value: Any) -> str:
    """A list is its members."""
    if isinstance(value, list) and value:
        return ", ".join(map(_shown, value))
    return value if isinstance(value, str) else json.dumps(value)
