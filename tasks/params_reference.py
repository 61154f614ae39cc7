"""Write docs/params.md: every key of params.yaml with its type, its default and its meaning, from the code.

The meaning of a key is the docstring below the field of its dataclass: what the code says of itself is what users read.
Usage: python -m tasks.params_reference
"""

import ast
import dataclasses
import inspect
import json
import textwrap
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bertcore.config import type_name, written
from bertcore.corpus.cleaning import LANGUAGES
from bertcore.corpus.config import CorpusConfig
from bertcore.examples.formats import FORMATS
from bertcore.files import replace_file
from bertcore.finetune.config import TaskConfig
from bertcore.model.config import ARCHITECTURES, FROM_ELSEWHERE, ModelConfig
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.recipes.recipe import NAMES, read_recipe
from bertcore.tokens.tokenizer import KINDS, TokenizerConfig
from bertcore.training.config import PretrainConfig
from tasks.params import flatten
from tasks.sections import SECTIONS

PAGE = Path("docs/params.md")

HEAD = """# Every parameter

Written by `python -m tasks.params_reference` from the code; a test holds it current. All of it may stand in
`params.yaml`, one section per stage. An unknown key and a value of a wrong type are refused by name before any work.
What is not given has its default (those below are of `recipe: null`); "required" has none. What depends on the machine
is no parameter: see [machine.md](machine.md).
"""

CHOICES: dict[tuple[type, str], Iterable[str]] = {
    (CorpusConfig, "language"): LANGUAGES.split(),
    (TokenizerConfig, "kind"): KINDS,
    (PretrainConfig, "objective"): OBJECTIVES,
    (ModelConfig, "architecture"): ARCHITECTURES,
    (TaskConfig, "format"): FORMATS,
}
"""Fields that hold a text -> the texts that are known."""

_TABLE = "| key | type | default | meaning |\n|:--|:--|:--|:--|"


def page() -> str:
    """The whole page."""
    parts = [HEAD, *_recipes()]
    for name, config_class in SECTIONS.items():
        parts += _section(f"## `{name}`", name, config_class)
        if name == "pretrain":
            parts += _architectures()
            parts += _objectives()
    parts += _section("## `finetune.tasks.NAME`: a task", "finetune.tasks.NAME", TaskConfig)
    parts.append("## `finetune.tasks.NAME.options`: how the task's data is read\n\nThey depend on its `format`.\n")
    for options, formats in _by_options(FORMATS).items():
        parts += _section(f"### Options of {', '.join(f'`{each}`' for each in formats)}", None, options)
    return "\n".join(parts).rstrip("\n") + "\n"


def _recipes() -> Iterator[str]:
    yield "## `recipe`\n"
    yield (
        "The defaults of every section, by a name; what a section gives itself wins over them (–: it sets none). A "
        "recipe's `warmup_steps` of more than a tenth of `max_steps` is dropped: it is then 6 % of them. Where "
        "`pretrain.learning_rate` is given, the three other rates of `modern` keep their ratio to it; where another "
        "optimizer is given, the recipe's rates and its `hidden_weight_decay` are dropped.\n"
    )
    content = {name: dict(read_recipe(name)) for name in NAMES}
    by_preset = {name: recipe.pop("presets", {}) for name, recipe in content.items()}
    recipes = {name: flatten(recipe) for name, recipe in content.items()}
    yield f"| key | {' | '.join(f'`{name}`' for name in recipes)} |\n|:--|{':--|' * len(recipes)}"
    for key in _in_their_order(recipes.values()):
        cells = [f"`{json.dumps(recipe[key])}`" if key in recipe else "–" for recipe in recipes.values()]
        yield f"| `{key}` | {' | '.join(cells)} |"
    yield "\nSome presets of `pretrain.model` have values of their own in place of these:\n"
    yield "| `recipe` | `preset` | values |\n|:--|:--|:--|"
    for recipe, presets in by_preset.items():
        for preset, values in presets.items():
            found = (f"`pretrain.{key}: {json.dumps(value)}`" for key, value in flatten(values).items())
            yield f"| `{recipe}` | `{preset}` | {', '.join(found)} |"
    yield ""


def _in_their_order(recipes: Iterable[Mapping[str, Any]]) -> list[str]:
    """All keys, section by section."""
    keys = list(dict.fromkeys(key for recipe in recipes for key in recipe))
    sections = list(dict.fromkeys(key.partition(".")[0] for key in keys))
    return sorted(keys, key=lambda key: sections.index(key.partition(".")[0]))


def _architectures() -> Iterator[str]:
    for name, row in ARCHITECTURES.items():
        title = f"### `pretrain.model` with `architecture: {name}`"
        yield from _section(title, None, row.config, skipped=FROM_ELSEWHERE)
        yield f"Presets: {', '.join(f'`{preset}`' for preset in row.presets)}. A default may be another one there.\n"


def _objectives() -> Iterator[str]:
    for options, names in _by_options(OBJECTIVES).items():
        title = f"### `pretrain.objective_options` with `objective: {' | '.join(names)}`"
        yield from _section(title, None, options)


def _by_options(rows: Mapping[str, Any]) -> dict[type, list[str]]:
    """Options class -> the names of the rows that have it."""
    found: dict[type, list[str]] = {}
    for name, row in rows.items():
        found.setdefault(row.options, []).append(name)
    return found


def _section(title: str, path: str | None, config_class: type, skipped: Sequence[str] = ()) -> Iterator[str]:
    """Title, docstring and table of one class, then those of the mappings inside of it."""
    summary = (inspect.getdoc(config_class) or "").partition("\n\n")[0]
    yield f"{title}\n\n{' '.join(summary.split())}\n"
    hints = typing.get_type_hints(config_class)
    fields = [each for each in _fields(config_class) if each.name not in skipped]
    if not fields:
        return
    yield _TABLE
    for field in fields:
        meaning = documented(config_class, field.name).replace("|", "\\|")
        known = CHOICES.get((config_class, field.name))
        kind = type_name(hints[field.name]) if known is None else ", ".join(f"`{each}`" for each in known)
        cells = (f"`{field.name}`", kind, _default(field), meaning)
        yield f"| {' | '.join(cells)} |"
    yield ""
    for field in fields:
        if (inner := _mapping(hints[field.name])) is not None:
            below = f"{path}.{field.name}" if path else field.name
            yield from _section(f"### `{below}`", below, inner)


def _fields(config_class: type) -> list[dataclasses.Field[Any]]:
    """Required ones first, then a class's own before those of its bases."""
    order = [name for each in config_class.__mro__ for name in inspect.get_annotations(each)]
    return sorted(written(config_class), key=lambda field: (_default(field) != "required", order.index(field.name)))


def documented(config_class: type, name: str) -> str:
    """The docstring below a field, in its class or the nearest base that has one, on one line; empty if none has."""
    for each in config_class.__mro__:
        if name in (found := _docstrings(each)):
            return " ".join(found[name].replace("None", "null").split())
    return ""


@cache
def _docstrings(config_class: type) -> dict[str, str]:
    """Field -> the text that stands below it, of those that this class declares itself."""
    if not dataclasses.is_dataclass(config_class):
        return {}
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(config_class))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(field.target)] = str(text.value.value)
    return found


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{json.dumps(field.default)}`" if field.default != "" else '`""`'
    if field.default_factory is dataclasses.MISSING:
        return "required"
    made = field.default_factory()
    return "its own" if dataclasses.is_dataclass(made) else f"`{json.dumps(made)}`"


def _mapping(hint: Any) -> type | None:
    """The dataclass that a hint names, alone or beside others."""
    hints = (hint, *typing.get_args(hint))
    return next((each for each in hints if dataclasses.is_dataclass(each) and isinstance(each, type)), None)


def main() -> None:
    """Write the page."""
    with replace_file(PAGE) as beside:
        beside.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
