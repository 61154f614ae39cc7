"""The services of infra/compose.yaml as `docker compose` would start them, but as plain processes on this machine."""

import re
import sys
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from tests.import_closure import ROOT

FILE = ROOT / "infra" / "compose.yaml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^{}]*))?\}")
"""An innermost one: a default may name another variable."""


def services(variables: Mapping[str, str]) -> dict[str, Any]:
    """Service -> its definition, merged and with `variables` in it; KeyError for one that must be set and is not."""
    loaded = YAML(typ="safe").load(FILE.read_text(encoding="utf-8"))
    return substituted(loaded["services"], variables)


def substituted(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        while _VARIABLE.search(value):
            value = _VARIABLE.sub(lambda match: _one(match, variables), value)
        return value.replace("$$", "$")
    if isinstance(value, Mapping):
        return {key: substituted(each, variables) for key, each in value.items()}
    return [substituted(each, variables) for each in value] if isinstance(value, list) else value


def _one(match: "re.Match[str]", variables: Mapping[str, str]) -> str:
    if variables.get(match[1]):
        return variables[match[1]]
    if match[2] == "-":
        return match[3]
    raise KeyError(match[1])


def command(service: Mapping[str, Any], own: Mapping[str, str]) -> list[str]:
    """Its command, words replaced as `own` says: a process of this machine has another port than its container."""
    program, *words = service["command"]
    return [sys.executable, "-m", program, *(own.get(word, word) for word in words)]
