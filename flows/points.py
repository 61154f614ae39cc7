"""The parameters of each run of a sweep: every combination of some values, or some drawn at random."""

import itertools
import json
import math
import random
from collections.abc import Iterable
from typing import Any

SEED = "pretrain.seed"
MOST = 1000
"""Runs of one sweep."""
_TRIES = 20
"""Draws for each run, in which different ones are looked for: of a few values there may not be as many."""


def at_least_one(name: str, number: int | None, null: str) -> int | None:
    """`number`, of the parameter `name`, or ValueError, in one line; `null` says what None is for."""
    if number is not None and number < 1:
        raise ValueError(f"parameter {name}: found {number}, expected 1 or more, or null {null}")
    return number


def points(params: dict[str, Any], seeds: list[int] | None, draws: int | None, draw_seed: int) -> list[dict[str, Any]]:
    """The dotted keys and values of each run; ValueError, in one line, for what cannot be combined or drawn."""
    if not params and not seeds:
        raise ValueError('parameter params: found nothing, expected such as {"pretrain.learning_rate": [1e-3, 2e-3]}')
    if seeds and SEED in params:
        raise ValueError(
            f"parameter seeds: found {seeds} beside params: {SEED}, expected one of them; remove the other"
        )
    for key, values in params.items():
        _check(key, values, drawn=draws is not None)
    count = at_least_one("draws", draws, "for every combination")
    number = (count or math.prod(map(len, params.values()))) * len(seeds or [SEED])
    if number > MOST:
        raise ValueError(f"parameter params: found {number:,} combinations, expected at most {MOST:,}; set draws")
    if count is None:
        drawn = [dict(zip(params, values, strict=True)) for values in itertools.product(*params.values())]
    else:
        source = random.Random(draw_seed)
        tries = ({key: _draw(values, source) for key, values in params.items()} for _ in range(_TRIES * count))
        drawn = _different(tries)[:count]
    chosen: list[int | None] = [*seeds] if seeds else [None]
    return _different(point | ({} if seed is None else {SEED: seed}) for point in drawn for seed in chosen)


def _different(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each once, where it first came: a second run of the same parameters would be the first one."""
    return list({json.dumps(point): point for point in found}.values())


def _check(key: str, values: Any, drawn: bool) -> None:
    if isinstance(values, list) and values:
        return
    if isinstance(values, dict) and drawn and values.keys() - {"log"} == {"min", "max"}:
        low, high = values["min"], values["max"]
        numbers = all(isinstance(each, int | float) for each in (low, high))
        if numbers and low < high and (0 if values.get("log") else -math.inf) < low:
            return
    ranges = 'a list of values or {"min": a, "max": b}, a below b, above 0 with "log": true'
    expected = ranges if drawn else "a list of values"
    raise ValueError(f"parameter params: {key}: found {values!r}, expected {expected}; correct it")


def _draw(values: Any, source: random.Random) -> Any:
    if isinstance(values, list):
        return source.choice(values)
    low, high = values["min"], values["max"]
    whole = isinstance(low, int) and isinstance(high, int)
    if values.get("log"):
        found = float(f"{math.exp(source.uniform(math.log(low), math.log(high))):.4g}")
        return round(found) if whole else found
    return source.randint(low, high) if whole else source.uniform(low, high)
