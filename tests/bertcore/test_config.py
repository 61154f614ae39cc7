"""Strict configuration: every mistake is one line with what, where, found, expected and the remedy."""

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Literal

import pytest

from bertcore.config import parse, within
from bertcore.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inner:
    width: int = 4

    def __post_init__(self) -> None:
        within(self, "width", "at least 1", least=1)


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    rate: float = 0.1
    flag: bool = False
    limit: int | None = None
    kind: Literal["a", "b"] = "a"
    files: list[str] = field(default_factory=list)
    inner: Inner = field(default_factory=Inner)
    table: dict[str, int] = field(default_factory=dict)
    rates: float | list[float] = 0.1
    threshold: float | Literal["tuned"] | None = None
    optional: Literal["a", "b"] | None = None


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"rates": 2}, 2.0),
        ({"rates": [1, 0.5]}, [1.0, 0.5]),
        ({"threshold": 1}, 1.0),
        ({"threshold": "tuned"}, "tuned"),
    ],
)
def test_unions_take_the_member_that_is_meant(given: dict[str, object], found: object) -> None:
    ((name, _),) = given.items()
    value = getattr(parse(Outer, {"name": "x", **given}, "p"), name)
    assert value == found and type(value) is type(found)
    assert parse(Outer, {"name": "x", "threshold": None}, "p").threshold is None


def test_values_take_their_types() -> None:
    found = parse(
        Outer, {"name": "x", "rate": 2, "limit": None, "inner": {"width": 8}, "files": ["f"], "table": {"k": 1}}, "p"
    )
    assert found == Outer(name="x", rate=2.0, inner=Inner(width=8), files=["f"], table={"k": 1})
    assert isinstance(found.rate, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nam": "x"}, "p: unknown key 'nam'; did you mean 'name'? Expected one of: files, flag"),
        ({}, "p: the key 'name' is missing, expected text; add it"),
        ({"name": 3}, "p.name: found 3 (int), expected text; correct the value"),
        ({"name": "x", "rate": "fast"}, "p.rate: found 'fast' (str), expected number; correct the value"),
        ({"name": "x", "rate": "1e-3"}, "p.rate: found '1e-3' (str), expected number; take the quotes off"),
        ({"name": "x", "flag": "true"}, "p.flag: found 'true' (str), expected true or false; take the quotes off"),
        ({"name": "x", "limit": "12"}, "p.limit: found '12' (str), expected integer"),
        ({"name": "x", "rate": True}, "p.rate: found True (bool), expected number"),
        ({"name": "x", "limit": 10**400}, "p.limit: found a whole number of 1329 bits, expected at most 63"),
        ({"name": "x", "rate": -(10**5000)}, "p.rate: found a whole number of 16610 bits"),
        ({"name": "x", "limit": 1.5}, "p.limit: found 1.5 (float), expected integer; correct the value"),
        ({"name": "x", "flag": 1}, "p.flag: found 1 (int), expected true or false"),
        ({"name": "x", "kind": "c"}, "p.kind: found 'c'; "),
        ({"name": "x", "optional": 5}, "p.optional: found 5 (int), expected `a`, `b` or null; correct the value"),
        ({"name": "x", "optional": "c"}, "p.optional: found 'c'; Expected one of: a, b"),
        ({"name": "x", "files": "f"}, "p.files: found 'f' (str), expected list of texts"),
        ({"name": "x", "files": ["f", 2]}, "p.files[1]: found 2 (int), expected text"),
        ({"name": "x", "rates": "fast"}, "p.rates: found 'fast' (str), expected number or list of numbers; correct"),
        ({"name": "x", "rates": [0.1, "b"]}, "p.rates[1]: found 'b' (str), expected number; correct the value"),
        (
            {"name": "x", "threshold": "tune"},
            "p.threshold: found 'tune'; did you mean 'tuned'? Expected one of: number",
        ),
        ({"name": "x", "threshold": "0.5"}, "p.threshold: found '0.5' (str), expected number or `tuned` or null; take"),
        ({"name": "x", "threshold": [1.0]}, "p.threshold: found [1.0] (list), expected "),
        ({"name": "x", "inner": {"width": 0}}, "p.inner.width: found 0, expected at least 1"),
        ({"name": "x", "inner": {"depth": 0}}, "p.inner: unknown key 'depth'"),
        ({"name": "x", "inner": 3}, "p.inner: found 3 (int), expected a mapping"),
        ({"name": "x", "name2": None, "rate": None}, "p: unknown key 'name2'; did you mean 'name'?"),
        ({"name": None}, "p.name: found nothing (null), expected text"),
        ([], "p: found [] (list), expected a mapping with the keys name, rate"),
    ],
)
def test_mistakes_are_named(values: object, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(Outer, values, "p")
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        ({"least": 1}, (1, 2.5, None), (0.999, math.nan)),
        ({"above": 0, "below": 1}, (1e-9, 0.5), (0, 1, math.nan)),
        ({"above": 0, "most": 1}, (1e-9, 1), (0, 1.001)),
    ],
)
def test_a_number_lies_within_its_bounds_or_is_named(
    bounds: dict[str, float], inside: tuple[float | None, ...], outside: tuple[float, ...]
) -> None:
    for number in inside:
        within(SimpleNamespace(share=number), "share", "another", **bounds)
    for number in outside:
        with pytest.raises(ValueError, match=f"^share: found {number}, expected another$"):
            within(SimpleNamespace(share=number), "share", "another", **bounds)
