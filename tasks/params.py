"""params.yaml, read as DVC reads it (YAML 1.2, so that 1e-4 is a number), completed by its recipe, checked strictly."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.constructor import DuplicateKeyError

from bertcore.config import describe, parse, suggest
from bertcore.errors import BertcoreError, ConfigError, InputError
from bertcore.recipes.recipe import with_recipe

PARAMS = Path("params.yaml")
MOST_VALUES = 100_000
"""That the file may have once its aliases are written out, as all that reads it would do."""

Config = TypeVar("Config")


def read(root: Path = Path()) -> dict[str, Any]:
    """The params.yaml of the tree `root`, with the values of its `recipe` where it gives none itself.

    `ConfigError` where it is missing or no mapping, or names an unknown recipe.
    """
    return parsed(_text(root))


def written(root: Path = Path()) -> Any:
    """The params.yaml of the tree `root` as it is written, without its recipe's values; `ConfigError` where it is
    missing or no YAML."""
    return values_of(_text(root))


def _text(root: Path) -> str:
    try:
        return text_of(root / PARAMS)
    except OSError as error:
        raise ConfigError(
            f"{root / PARAMS}: {error.strerror}, expected the pipeline's parameters; run from the project's root"
        ) from None


@contextmanager
def naming(key: str) -> Iterator[None]:
    """Errors say which key of params.yaml they are about."""
    try:
        yield
    except BertcoreError as error:
        raise InputError(f"params.yaml: {key}: {error}") from None


def text_of(path: Path) -> str:
    """`ConfigError` where the file is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from None


def values_of(text: str, where: Path = PARAMS) -> Any:
    """What the YAML of a file says, as it is written there; `ConfigError` where it is none."""
    try:
        return YAML(typ="safe", pure=True).load(text)
    except DuplicateKeyError as error:
        key = re.search(r'duplicate key "(.*?)"', str(error.problem))
        raise ConfigError(
            f"{where}: the key {key[1] if key else ''} stands twice, again in line {error.problem_mark.line + 1}; put "
            "what both have into one"
        ) from None
    except (YAMLError, ValueError) as error:  # such as a number of thousands of digits
        raise ConfigError(f"{where}: not valid YAML: {' '.join(str(error).split())}; correct the file") from None
    except RecursionError:
        raise ConfigError(f"{where}: found hundreds of levels, expected a few; correct the file") from None


def parsed(text: str) -> dict[str, Any]:
    """As `read`, of the file's text."""
    values = values_of(text)
    if (found := _written_out(values, {}, ())) > MOST_VALUES:
        raise ConfigError(
            f"{PARAMS}: found aliases (*name) that stand for {_many(found)} values when they are written out, expected "
            f"at most {MOST_VALUES:,}; write the values themselves"
        )
    if not isinstance(values, Mapping):
        raise ConfigError(f"{PARAMS}: found no mapping, expected one section per stage; restore the file")
    return complete(values)


def _written_out(value: Any, known: dict[int, float], above: tuple[int, ...]) -> float:
    """How many values `value` has when every alias in it is written out; infinitely many where one holds itself."""
    if not isinstance(value, Mapping | list):
        return 1
    if id(value) in above:
        return math.inf
    if id(value) not in known:
        inner = value.values() if isinstance(value, Mapping) else value
        known[id(value)] = 1 + sum(_written_out(each, known, (*above, id(value))) for each in inner)
    return known[id(value)]


def _many(number: float) -> str:
    return "endlessly many" if math.isinf(number) else f"{number:,}"


def complete(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is written in the file, with the values of its recipe; `ConfigError` for an unknown or misplaced one."""
    pretrain = values.get("pretrain")
    if isinstance(pretrain, Mapping) and "recipe" in pretrain:
        raise ConfigError(
            f"{PARAMS}: pretrain.recipe: found {pretrain['recipe']!r}, expected no such key: a recipe gives values to "
            f"several sections; write `recipe: {pretrain['recipe']}` at the top of the file"
        )
    try:
        return with_recipe(values)
    except ValueError as error:
        raise ConfigError(f"{PARAMS}: {error}") from None
    except OverflowError:
        raise ConfigError(
            f"{PARAMS}: pretrain: found a whole number of hundreds of digits, expected less; lower max_steps or "
            "learning_rate"
        ) from None


def section(name: str, config_class: type[Config]) -> Config:
    """The section `name` as its dataclass; one that is null has its defaults."""
    values = read().get(name)
    return parse(config_class, {} if values is None else values, f"{PARAMS}: {name}")


def source_entries(sources: Iterable[Any]) -> list[Any]:
    """Those of `corpus.sources`, which may be URIs alone, as mappings with a `uri`."""
    return [{"uri": each} if isinstance(each, str) else each for each in sources]


def task_entries(values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of `finetune.tasks` by their names; `ConfigError` where they are no mapping, or a name is no text."""
    section = values.get("finetune", {"tasks": {}})
    entries = section.get("tasks") if isinstance(section, Mapping) else None
    if not isinstance(entries, Mapping):  # DVC makes a stage of every one, and takes nothing but a mapping
        raise ConfigError(
            f"{PARAMS}: finetune.tasks: found {describe(entries)}, expected a mapping of tasks; give every one a name, "
            "or write `finetune: {tasks: {}}` for none"
        )
    for name in entries:
        if not isinstance(name, str):
            raise ConfigError(
                f"{PARAMS}: finetune.tasks: found the task name {name!r} ({type(name).__name__}), expected a text "
                "that begins with a letter; rename it"
            )
    return dict(entries)


def task_entry(name: str) -> dict[str, Any]:
    """The entry `finetune.tasks.NAME`, which stage `inputs` has checked."""
    entries = task_entries(read())
    if name not in entries:
        raise ConfigError(f"{PARAMS}: finetune.tasks: no task {name!r}; {suggest(name, entries)}")
    return entries[name]


def task(name: str, config_class: type[Config]) -> Config:
    """The entry `finetune.tasks.NAME` as its dataclass."""
    return parse_task(name, task_entry(name), config_class)


def parse_task(name: str, entry: Any, config_class: type[Config]) -> Config:
    """An entry of `finetune.tasks` as its dataclass, without its `options`, which are the format's."""
    if isinstance(entry, Mapping):
        entry = {key: value for key, value in entry.items() if key != "options"}
    return parse(config_class, entry, f"{PARAMS}: finetune.tasks.{name}")


def flatten(values: Mapping[str, Any], separator: str = ".", prefix: str = "") -> dict[str, Any]:
    """``{"pretrain.model.preset": "tiny", …}``: leaves by their path; lists are leaves."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, separator, f"{prefix}{key}{separator}"))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
