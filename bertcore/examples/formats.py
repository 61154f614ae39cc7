"""Every layout that a task's data may have, by the name that `params.yaml` gives as `format`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.examples import choices, conll, docstrings, glue, squad, table
from bertcore.examples.choices import ChoicesOptions
from bertcore.examples.conll import ConllOptions
from bertcore.examples.glue import GlueOptions
from bertcore.examples.schema import ExampleSet
from bertcore.examples.squad import SquadOptions
from bertcore.examples.table import TableOptions


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The options of a layout that leaves nothing to choose."""


@dataclass(frozen=True)
class Format:
    """One layout."""

    families: tuple[str, ...]
    """Names as in `ExampleSet.family`: which head the task takes, by its options where there are several."""
    options: type
    """What may stand under the task's `options`, as a dataclass."""
    reader: Callable[[Path, Any], ExampleSet]
    """Reads a directory with those options: the task's files, or for `pydoc/…` that of the corpus."""
    pairs: bool = False
    """Whether every example is two texts; of the others, the examples themselves tell."""


def _derived(family: str, reader: Callable[[Path], ExampleSet], pairs: bool = False) -> Format:
    return Format((family,), NoOptions, lambda corpus, options: reader(corpus), pairs)


FORMATS: dict[str, Format] = {
    "pydoc/topic": _derived("classification", docstrings.READERS["topic"]),
    "pydoc/pair": _derived("classification", docstrings.READERS["pair"], pairs=True),
    "pydoc/tagging": _derived("tagging", docstrings.READERS["tagging"]),
    "pydoc/qa": _derived("question_answering", docstrings.READERS["qa"], pairs=True),
    **{f"glue/{task}": Format(("classification",), GlueOptions, partial(glue.read, task)) for task in glue.TASKS},
    "squad": Format(("question_answering",), SquadOptions, squad.read, pairs=True),
    "conll": Format(("tagging",), ConllOptions, conll.read),
    "table": Format(("classification", "multi_label"), TableOptions, table.read),
    "choices": Format(("multiple_choice",), ChoicesOptions, choices.read, pairs=True),
}


def parse_options(format_name: str, values: Any, where: str) -> Any:
    """The options of a format as its dataclass; `ConfigError` for an unknown key or a wrong value, under `where`.

    A column of a table may be given as its number.
    """
    options = FORMATS[format_name].options
    if not isinstance(values, Mapping) or options is not NoOptions:
        return parse(options, _columns_as_names(values), where)
    if values:
        raise ConfigError(f"{where}: found {next(iter(values))!r}, but the format {format_name!r} has none; remove it")
    return NoOptions()


def _columns_as_names(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    return {key: _as_name(value) if key in _NAMED else value for key, value in values.items()}


_NAMED = ("text_column", "text_pair_column", "label_column", "context_column", "question_column", "choices_column")


def _as_name(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_name(each) for each in value]
    return str(value) if type(value) is int else value


def read(format_name: str, directory: Path, options: Mapping[str, Any]) -> ExampleSet:
    """The task in `directory`, whose `options` are as in params.yaml."""
    parsed = parse_options(format_name, options, f"options of {format_name}")
    return FORMATS[format_name].reader(directory, parsed)
