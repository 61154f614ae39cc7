"""Answers of questions: the first and the last token, each from the words beside it and from where the words of the
question stand."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit
from sklearn.linear_model import SGDClassifier

from bertcore.examples.schema import ExampleSet
from bertcore.linear.features import around, classifier, hashed, shape
from bertcore.words import sign, word

LONGEST = 30
"""Tokens of an answer at most."""
FREQUENT = 0.05
"""Share of the questions: a word of more of them is one that asks ("who"), and none that is asked about."""
_FAR, _NEAR = 12, 10
"""Tokens from which on distances are one, and within which the words of the question are counted."""

Row = dict[str, Any]
Span = tuple[int, int]
"""Where a token begins and ends, in characters."""


def answers(examples: ExampleSet, seed: int) -> dict[str, str]:
    """Question id -> answer, of dev; every question of train has one."""
    golds = [(row, _answer(row)) for row in examples.splits["train"].to_pylist()]
    rows = [row for row, gold in golds if gold]
    asking = _asking(rows)
    features = hashed(each for row in rows for each in _features(row, asking))
    models = [classifier(seed).fit(features, _is_end(golds, end)) for end in (0, -1)]
    return {row["id"]: _said(row, asking, models) for row in examples.splits["dev"].to_pylist()}


def _is_end(golds: Sequence[tuple[Row, list[int]]], end: int) -> NDArray[np.bool_]:
    """(tokens of all contexts with an answer,) whether each is its first one, or with -1 its last one."""
    return np.concatenate([np.arange(len(_spans(row["context"]))) == gold[end] for row, gold in golds if gold])


def _said(row: Row, asking: set[str], models: Sequence[SGDClassifier]) -> str:
    spans = _spans(row["context"])
    if not spans:
        return ""
    seen = hashed(_features(row, asking))
    begin, end = _best(*(log_expit(model.decision_function(seen)) for model in models))
    return str(row["context"][spans[begin][0] : spans[end][1]])


def _best(first: NDArray[np.float64], last: NDArray[np.float64]) -> tuple[int, int]:
    """The likeliest first and last token of an answer, from the logarithms of each one's probability to be so."""
    together = first[:, None] + last[None, :]  # (tokens, tokens)
    possible = np.tril(np.triu(np.ones_like(together, dtype=bool)), LONGEST - 1)
    begin, end = np.unravel_index(np.where(possible, together, -np.inf).argmax(), together.shape)
    return int(begin), int(end)


@cache
def _token() -> re.Pattern[str]:
    return re.compile(rf"{word()}|{sign()}|\n")


def _spans(text: str) -> list[Span]:
    return [found.span() for found in _token().finditer(text)]


def _answer(row: Row) -> list[int]:
    """The places of the tokens of the first answer; none where it has none."""
    begin = row["answers"][0]["answer_start"]
    end = begin + len(row["answers"][0]["text"])
    return [place for place, span in enumerate(_spans(row["context"])) if span[1] > begin and span[0] < end]


def _asked(row: Row) -> list[str]:
    return _token().findall(row["question"].lower())


def _asking(rows: Sequence[Row]) -> set[str]:
    counts = Counter(each for row in rows for each in set(_asked(row)))
    return {each for each, count in counts.items() if count > FREQUENT * len(rows)}


def _features(row: Row, asking: set[str]) -> Iterator[list[str]]:
    """Of each token of the context: what stands at it and where, and each of that with what is asked."""
    tokens = [row["context"][begin:end] for begin, end in _spans(row["context"])]
    question = _asked(row)
    kinds = [each for each in question if each in asking]
    crossed = ("", " ".join(kinds) + "|", " ".join(kinds[:2]) + ":")
    lower = [token.lower() for token in tokens]
    places = _places(lower, set(question) - asking)
    for place, where in enumerate(places):
        seen = _of_token(tokens, lower, place, where)
        yield [name + each for name in crossed for each in seen]


def _of_token(tokens: Sequence[str], lower: Sequence[str], place: int, where: Sequence[int]) -> list[str]:
    near = around(lower, place, 2)
    before, after, since_first, lines, common = where
    return [
        "",
        f"before {before}",
        f"after {after}",
        f"first {since_first}",
        f"lines {lines} {before}",
        f"common {common}",
        f"shape {shape(tokens[place])}",
        f"shapes {shape(tokens[place - 1]) if place else ''} {shape(tokens[place])}",
        *(f"word {offset} {each}" for offset, each in enumerate(near)),
        f"beside {near[1]} {near[3]}",
        f"pair {near[1]} {near[2]}",
        f"since {near[1]} {before}",
        f"place {near[1]} {near[3]} {before}",
    ]


def _places(tokens: Sequence[str], wanted: set[str]) -> list[list[int]]:
    """Of each token: how far behind and before it the nearest of the `wanted` words stands, how far behind the first
    one, how many lines ended since the nearest one, how many of them are near."""
    here = np.arange(len(tokens))
    hit = np.array([token in wanted for token in tokens])
    last = np.maximum.accumulate(np.where(hit, here, -_FAR))
    following = np.minimum.accumulate(np.where(hit, here, len(tokens) + _FAR)[::-1])[::-1]
    ended = np.cumsum([token == "\n" for token in tokens])
    first = here - (hit.argmax() if hit.any() else len(tokens))
    columns = [
        np.minimum(here - last, _FAR),
        np.minimum(following - here, _FAR),
        np.clip(first, -1, _FAR),
        np.minimum(ended - ended[np.maximum(last, 0)], 2),
        _near(tokens, wanted),
    ]
    return np.stack(columns, axis=1).tolist()


def _near(tokens: Sequence[str], wanted: set[str]) -> NDArray[np.int64]:
    """(tokens,) how many different of the `wanted` words stand within `_NEAR` tokens."""
    places = defaultdict(list)
    for place, token in enumerate(tokens):
        if token in wanted:
            places[token].append(place)
    here = np.arange(len(tokens))[:, None]
    return sum(((np.abs(here - of) <= _NEAR).any(axis=1) for of in places.values()), np.zeros(len(tokens), np.int64))
