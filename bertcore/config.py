"""Strict configuration: a mapping from YAML becomes a frozen dataclass, or a `ConfigError` that names the key.

One section of `params.yaml` is one dataclass, kept beside the code that it configures.
"""

import dataclasses
import difflib
import math
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from bertcore.errors import ConfigError

Config = TypeVar("Config")
BESIDE = "beside"
"""In the metadata of a field: `complete` gathers it from keys of the section."""
_HUGE = 2**63
"""What no whole number of 64 bits, in which all is computed, can be."""


def parse(config_class: type[Config], values: Any, where: str) -> Config:
    """Build `config_class` from `values`, a mapping as YAML gives it.

    `where` is the path that errors name, such as ``params.yaml: pretrain``. Unknown keys, missing keys and wrong types
    raise `ConfigError`; so does a `ValueError` from the dataclass's own `__post_init__`, with `where` put before it.
    A class method `complete`, where there is one, may add values first.
    """
    if not isinstance(values, Mapping):
        keys = ", ".join(field.name for field in written(config_class))
        expected = f"a mapping with the keys {keys}" if keys else "no such key; remove it"
        raise ConfigError(f"{where}: found {describe(values)}, expected {expected}")
    try:
        values = getattr(config_class, "complete", dict)(values)
    except ValueError as error:
        raise ConfigError(f"{where}.{error}") from None
    hints = typing.get_type_hints(config_class)
    fields = {field.name: field for field in dataclasses.fields(config_class)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise ConfigError(f"{where}: unknown key {key!r}; {suggest(str(key), fields)}")
    required = {
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    if missing := sorted(required - set(values)):
        raise ConfigError(
            f"{where}: the key {missing[0]!r} is missing, expected {type_name(hints[missing[0]])}; add it"
        )
    arguments = {key: convert(hints[key], value, f"{where}.{key}") for key, value in values.items()}
    try:
        return config_class(**arguments)
    except ValueError as error:
        raise ConfigError(f"{where}.{error}") from None


def within(
    config: object,
    name: str,
    expected: str,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> None:
    """`ValueError`, which says what is `expected`, unless the number `name` of `config` lies within the bounds given;
    None stands for no number, and is always."""
    found = getattr(config, name)
    if found is not None and not (
        (least is None or found >= least)
        and (above is None or found > above)
        and (below is None or found < below)
        and (most is None or found <= most)
    ):
        raise ValueError(f"{name}: found {found}, expected {expected}")


def written(config_class: type) -> list[dataclasses.Field[Any]]:
    """The fields that are keys of their section; the keys of one that is `BESIDE` stand beside them."""
    return [field for field in dataclasses.fields(config_class) if BESIDE not in field.metadata]


def convert(hint: Any, value: Any, where: str) -> Any:
    """`value` as the annotated type `hint`: int, float, str, bool, Literal, X | None, X | list[X], X | Literal,
    list[X], dict[str, X], dataclass, Any."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _convert_union(hint, value, where)
    if dataclasses.is_dataclass(hint):
        return parse(typing.cast(type, hint), value, where)
    if origin is typing.Literal:
        if value not in arguments:
            raise ConfigError(f"{where}: found {value!r}; {suggest(str(value), [str(choice) for choice in arguments])}")
        return value
    if origin is list and isinstance(value, list):
        return [convert(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value)]
    if origin is dict and isinstance(value, Mapping):
        return {str(key): convert(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, int) and abs(value) >= _HUGE:
        raise ConfigError(f"{where}: found a whole number of {value.bit_length()} bits, expected at most 63; lower it")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: found {value}, expected a number that is finite; correct the value")
    if origin is None and isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool):
        return value
    raise _wrong(hint, value, where)


def _convert_union(hint: Any, value: Any, where: str) -> Any:
    """`value` as the one member of the union `hint` that it can be meant as; see `convert`."""
    members = typing.get_args(hint)
    if value is None and type(None) in members:
        return None
    choices = [member for member in members if member is not type(None)]
    meant = _alternative(choices, value)
    if meant is None:
        raise _wrong(hint, value, where)
    if typing.get_origin(meant) is typing.Literal and value not in (words := typing.get_args(meant)):
        if not isinstance(value, str) or _PLAIN_VALUE.fullmatch(value.strip()):
            raise _wrong(hint, value, where)
        others = [type_name(choice) for choice in choices if choice is not meant]
        raise ConfigError(f"{where}: found {value!r}; {suggest(value, [*words, *others])}")
    return convert(meant, value, where)


def _wrong(hint: Any, value: Any, where: str) -> ConfigError:
    remedy = "correct the value"
    if isinstance(value, str) and typing.get_origin(hint) is list:
        remedy = f"write [{value}]"
    elif isinstance(value, str) and {int, float, bool}.intersection((hint, *typing.get_args(hint))):
        remedy = "take the quotes off" if _PLAIN_VALUE.fullmatch(value.strip()) else remedy
    return ConfigError(f"{where}: found {describe(value)}, expected {type_name(hint)}; {remedy}")


_PLAIN_VALUE = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|true|false")
"""What YAML reads as a number, or as true or false, where no quotes stand around it."""


def _alternative(choices: list[Any], value: Any) -> Any:
    """Of the members of a union, that which a list, a text or anything else can only be meant as; None if there is
    none."""
    if len(choices) == 1:
        return choices[0]
    is_list, is_text = isinstance(value, list), isinstance(value, str)
    for choice in choices:
        origin = typing.get_origin(choice)
        if (origin is list) == is_list and (choice is str or origin is typing.Literal) == is_text:
            return choice
    return None


def suggest(found: str, choices: typing.Iterable[str]) -> str:
    """The remedy for a name that is not among `choices`: the nearest one, and all of them."""
    known = sorted(choices)
    longer = [each for each in known if len(found) > 1 and each.startswith(found)]
    near = longer or difflib.get_close_matches(found, known, n=1, cutoff=0.6)
    near = near or [each for each in known if len(each) > 1 and found.startswith(each)]
    return (f"did you mean {near[0]!r}? " if near else "") + f"Expected one of: {', '.join(known)}"


def describe(value: Any) -> str:
    """A found value for an error message, with its YAML type."""
    return "nothing (null)" if value is None else f"{value!r} ({type(value).__name__})"


def type_name(hint: Any) -> str:
    """An annotated type in plain words, as messages and docs/params.md have it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(type_name, sorted(arguments, key=lambda each: each is types.NoneType)))
    if origin is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin is list:
        return f"list of {_plural(arguments[0])}"
    if origin is dict:
        return "mapping" if arguments[1] is Any else f"mapping of {_plural(arguments[1])}"
    return "mapping" if dataclasses.is_dataclass(hint) else _PLAIN[hint]


def _plural(hint: Any) -> str:
    return "mappings" if dataclasses.is_dataclass(hint) else _PLURAL.get(hint, type_name(hint))


_PLAIN = {int: "integer", float: "number", str: "text", bool: "true or false", types.NoneType: "null"}
_PLURAL = {int: "integers", float: "numbers", str: "texts"}
