"""Other values for single keys of params.yaml: `{"pretrain.learning_rate": 1e-3}`, checked as stage `inputs` does.

An asterisk stands for all keys of a section: `finetune.tasks.*.seed` is that of every task.

`python -m tasks.variation` reads `{"params": TEXT, "changes": {…}}`, prints the text of params.yaml with the changes,
its comments kept, and writes nothing.
"""

import copy
import io
import json
import sys
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from bertcore.config import describe, suggest
from bertcore.errors import ConfigError
from tasks import params, sections
from tasks.status import exit_status

_ANY = ".*."


def vary(values: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Set the dotted keys `changes` in `values`; `ConfigError` where one leads through something that has no keys."""
    for dotted, value in changes.items():
        if _ANY in dotted:
            vary(values, {each: copy.deepcopy(value) for each in _spelled_out(values, dotted)})
            continue
        *names, last = dotted.split(".")
        place, way = values, ""
        for name in names:
            way = f"{way}.{name}" if way else name
            if place.get(name) is None:
                place[name] = {}
            place = place[name]
            if not isinstance(place, dict):
                raise ConfigError(
                    f"{params.PARAMS}: {dotted}: found {describe(place)} at {way}, expected a section with keys; "
                    "correct the dotted key"
                )
        if not names and last in sections.SECTIONS and isinstance(value, Mapping) and value and place.get(last):
            key = next(iter(value))
            raise ConfigError(
                f"{params.PARAMS}: {last}: found a mapping ({{{key}: …}}), which would take the place of the whole "
                f"section, expected its keys by dotted names; write {last}.{key}: {value[key]!r}"
            )
        place[last] = value


def _spelled_out(values: Mapping[str, Any], dotted: str) -> list[str]:
    """With every key in place of the first asterisk; none where the section above it is empty. `ConfigError` where it
    is no section."""
    above, _, below = dotted.partition(_ANY)
    place: Any = values
    for name in above.split("."):
        if not isinstance(place, Mapping) or name not in place:
            known = suggest(name, map(str, place)) if isinstance(place, Mapping) else "above it stands no section"
            raise ConfigError(f"{params.PARAMS}: {dotted}: found no key {name!r}; {known}")
        place = place[name]
    if not isinstance(place, Mapping | None):
        raise ConfigError(
            f"{params.PARAMS}: {dotted}: found {describe(place)} at {above}, expected a section with keys; correct the "
            "dotted key"
        )
    return [f"{above}.{name}.{below}" for name in place or ()]


def varied_text(text: str, changes: Mapping[str, Any]) -> str:
    """`text` of params.yaml with `changes`; `ConfigError` for the first thing in it that cannot work."""
    params.parsed(text)  # says in one line what is wrong with the file as it is
    yaml = YAML()
    yaml.width = 120
    values = yaml.load(text)
    vary(values, changes)
    stream = io.StringIO()
    yaml.dump(values, stream)
    sections.check(params.parsed(stream.getvalue()))
    return stream.getvalue()


def main() -> int:
    given = json.load(sys.stdin)
    return exit_status(lambda: print(varied_text(given["params"], given["changes"]), end=""))


if __name__ == "__main__":
    sys.exit(main())
