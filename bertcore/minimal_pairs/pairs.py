"""Minimal pairs: two sentences of which the first is right, and what the difference tests."""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertcore import draws
from bertcore.compressed import json_lines
from bertcore.config import within
from bertcore.errors import InputError, TextError

Variant = Literal["original", "within_word_l2r"]

_ROUNDING = 1e-9
"""Of the product of a share and a number: 0.07 of 100 is a little more than 7 in binary."""

EMBEDDED = "corpus"
"""In place of files, the `pairs` that are made from the held-out sentences of the corpus."""


@dataclass(frozen=True, kw_only=True)
class MinimalPairsConfig:
    """Section `minimal_pairs` of params.yaml."""

    pairs: str | list[str] | None = EMBEDDED
    """`corpus` (made from its held-out sentences), a file of JSON lines or several; None = no evaluation by pairs."""
    variant: Variant = "original"
    """`original` masks one token at a time (Salazar et al. 2020); `within_word_l2r` also the later pieces of its word
    (Kauf & Ivanova 2023)."""
    share: float = 1.0
    """Of the pairs of every paradigm."""

    def __post_init__(self) -> None:
        within(self, "share", "more than 0 and at most 1; 1 takes all pairs", above=0, most=1)
        if self.pairs == []:
            raise ValueError("pairs: found an empty list, expected files; null leaves the evaluation out")

    @property
    def files(self) -> list[str]:
        """The files that are read; none where the pairs are the embedded ones, or are left out."""
        return [] if self.pairs is None or self.pairs == EMBEDDED else _as_list(self.pairs)


@dataclass(frozen=True, kw_only=True)
class EvalPairsConfig:
    """`pretrain.eval_pairs`: minimal pairs that are scored at every evaluation of a training, which gives a curve."""

    pairs: str | list[str]
    """A file of JSON lines or several, as `minimal_pairs.pairs`."""
    share: float = 0.1
    """Of the pairs of every paradigm."""

    def __post_init__(self) -> None:
        within(self, "share", "more than 0 and at most 1; 1 takes all pairs", above=0, most=1)
        if self.pairs in ([], EMBEDDED):
            raise ValueError(
                f"pairs: found {self.pairs!r}, expected files: the pre-training does not see the corpus's sentences; "
                "name some, or set eval_pairs to null"
            )

    @property
    def files(self) -> list[str]:
        """Those that are read."""
        return _as_list(self.pairs)


def _as_list(pairs: str | list[str]) -> list[str]:
    return [pairs] if isinstance(pairs, str) else pairs


@dataclass(frozen=True)
class Pair:
    """One line of a file of minimal pairs."""

    good: str
    bad: str
    paradigm: str
    """What the difference tests, such as `adjunct_island`."""
    phenomenon: str
    """What its paradigm belongs to, such as `island_effects`; the paradigm itself where nothing is said."""


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a file of JSON lines, or of a directory of such, as `json_lines` reads them, in any of `LAYOUTS`.

    `InputError` names the line that is none. BLiMP itself has a few pairs of twice the same sentence. They stay: a tie
    for every scorer.
    """
    pairs = [_pair(where, row) for where, row in json_lines(path, _EXPECTED)]
    if not pairs:
        raise InputError(f"{path}: found no pairs, expected JSON lines with {_EXPECTED}; correct the path or the file")
    return pairs


def read_numbered(directory: Path, count: int) -> list[Pair]:
    """The pairs of all files that are linked below `directory` as 0, 1, …"""
    return [pair for number in range(count) for pair in read_pairs(directory / str(number))]


def _pair(where: str, row: Any) -> Pair:
    keys = set(row) if isinstance(row, dict) else set()
    pair_of = next((of for names, of in LAYOUTS.items() if keys.issuperset(names)), None)
    if pair_of is None:
        found = ", ".join(sorted(keys)) or type(row).__name__
        raise InputError(f"{where}: found {found}, expected an object with {_EXPECTED}; correct the line")
    pair = pair_of(row)
    for field, value in dataclasses.asdict(pair).items():
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}: {field}: found {value!r}, expected a text; correct the line")
    return pair


def _plain(row: Mapping[str, Any]) -> Pair:
    return Pair(row["good"], row["bad"], row["kind"], row.get("phenomenon", row["kind"]))


def _blimp(row: Mapping[str, Any]) -> Pair:
    return Pair(row["sentence_good"], row["sentence_bad"], row["UID"], row.get("linguistics_term", row["UID"]))


LAYOUTS: dict[tuple[str, ...], Callable[[Mapping[str, Any]], Pair]] = {
    ("good", "bad", "kind"): _plain,
    ("sentence_good", "sentence_bad", "UID"): _blimp,
}
"""The keys that a line must have -> how it is read; `phenomenon`, in BLiMP `linguistics_term`, may be absent."""

_EXPECTED = " or ".join(", ".join(names) for names in LAYOUTS)


def by_paradigm(pairs: Sequence[Pair]) -> dict[str, list[int]]:
    """The places of each paradigm's pairs; paradigms in the order in which they are first met."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, pair in enumerate(pairs):
        places[pair.paradigm].append(place)
    return dict(places)


def subset(pairs: Sequence[Pair], share: float) -> list[Pair]:
    """`share` of the pairs of every paradigm, at least one, in their order; the same ones every time."""
    chosen: list[int] = []
    for paradigm, places in by_paradigm(pairs).items():
        order = draws.permutation(draws.key("minimal pairs", paradigm), len(places))
        chosen += [places[place] for place in order[: max(1, math.ceil(share * len(places) - _ROUNDING))]]
    return [pairs[place] for place in sorted(chosen)]


Scorer = Callable[[Sequence[str]], NDArray[np.float64]]
"""(S,) sentences -> (S,) numbers that are higher for what is more likely; any model that can say that."""


def score(pairs: Sequence[Pair], scorer: Scorer) -> NDArray[np.float64]:
    """(P, 2) scores of the good and the bad sentences. A sentence that occurs twice is scored once."""
    places: dict[str, int] = {}
    index = [[places.setdefault(text, len(places)) for text in (pair.good, pair.bad)] for pair in pairs]
    try:
        scores = scorer(list(places))
    except TextError as error:
        raise InputError(f"minimal pairs: the sentence {error}") from None
    return scores[np.array(index, np.int64).reshape(-1, 2)]
