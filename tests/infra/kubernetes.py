"""What infra/kubernetes declares, as the tests read it."""

import json
from typing import Any

from ruamel.yaml import YAML

from tests.import_closure import ROOT

PLACE = ROOT / "infra" / "kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    """Those of a YAML file."""
    return list(YAML(typ="safe").load_all((PLACE / name).read_text(encoding="utf-8")))


def work_pool() -> dict[str, Any]:
    """The base job template of the pool `gpus`."""
    template: dict[str, Any] = json.loads((PLACE / "work-pool.json").read_text(encoding="utf-8"))
    return template
