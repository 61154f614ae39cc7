"""How often a scorer prefers the good sentence of a minimal pair: in all, by paradigm and by phenomenon.

A tie counts half: a scorer that knows nothing of a difference is then at one half, however many ties it makes.

The standard errors are those of the choice of the pairs, for a fixed set of paradigms; what another seed of the
training would change comes on top.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.minimal_pairs.pairs import Pair, by_paradigm

MODEL = "model"
"""The system whose scores are looked at beside the others'."""


@dataclass(frozen=True)
class Mean:
    """A mean over pairs (or over paradigms) and its standard error."""

    value: float
    standard_error: float


def outcomes(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """(P, 2) scores of good and bad sentences -> (P,): 1 where the good one is higher, 0.5 for a tie, else 0."""
    return (1 + np.sign(scores[:, 0] - scores[:, 1])) / 2


def mean(values: NDArray[np.float64]) -> Mean:
    """Of a sample of at least one. Values that are all alike do not show their error: it is said to be that of a share
    of which nothing else was known, the standard deviation of Beta(n + 1, 1)."""
    n = len(values)
    if values.min() == values.max():
        return Mean(float(values[0]), math.sqrt((n + 1) / (n + 3)) / (n + 2))
    return Mean(float(values.mean()), math.sqrt(float(values.var(ddof=1)) / n))


def pooled(means: Sequence[Mean], weights: Sequence[float]) -> Mean:
    """The weighted mean of independent means, by weights that need not sum to 1."""
    shares = [weight / sum(weights) for weight in weights]
    value = math.fsum(share * each.value for share, each in zip(shares, means, strict=True))
    variance = math.fsum((share * each.standard_error) ** 2 for share, each in zip(shares, means, strict=True))
    return Mean(value, math.sqrt(variance))


def overall(pairs: Sequence[Pair], values: NDArray[np.float64]) -> tuple[Mean, Mean]:
    """The mean of (P,) values over all pairs, and the mean of the paradigms' means (macro).

    Paradigms of a single pair, which says nothing of its error, are one stratum together.
    """
    groups = list(by_paradigm(pairs).values())
    alone = [place for places in groups if len(places) == 1 for place in places]
    strata = [places for places in groups if len(places) > 1] + ([alone] if alone else [])
    means = [mean(values[places]) for places in strata]
    paradigms = [float(len(places)) if places is alone else 1.0 for places in strata]
    return pooled(means, list(map(len, strata))), pooled(means, paradigms)


def summarize(pairs: Sequence[Pair], scores: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """The metrics of several systems on the same pairs; `scores` are (P, 2) by the system's name, the `MODEL` among
    them.

    `accuracy` is the model's on all pairs, once more, where other programs look for one number. `gain` is the
    difference of the model to each other system, by the differences of single pairs. Accuracies are shares.
    """
    right = {name: outcomes(values) for name, values in scores.items()}
    systems: dict[str, Any] = {}
    for name, values in right.items():
        plain, macro = overall(pairs, values)
        systems[name] = {
            "accuracy": plain.value,
            "standard_error": plain.standard_error,
            "macro_accuracy": macro.value,
            "macro_standard_error": macro.standard_error,
            "ties": int((values == 0.5).sum()),
        }
    gains = {name: overall(pairs, right[MODEL] - values)[0] for name, values in right.items() if name != MODEL}
    phenomena: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        phenomena.setdefault(pair.phenomenon, []).append(place)
    return {
        "accuracy": systems[MODEL]["accuracy"],
        "pairs": len(pairs),
        "systems": systems,
        "gain": {name: {"accuracy": each.value, "standard_error": each.standard_error} for name, each in gains.items()},
        "phenomena": {name: _row(pairs, places, right) for name, places in phenomena.items()},
        "paradigms": {name: _row(pairs, places, right) for name, places in by_paradigm(pairs).items()},
    }


def _row(pairs: Sequence[Pair], places: list[int], right: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """The accuracy of all systems on some of the pairs, and the standard error of the model's."""
    chosen = [pairs[place] for place in places]
    means = {name: overall(chosen, values[places])[0] for name, values in right.items()}
    accuracies = {name: each.value for name, each in means.items()}
    return {"pairs": len(places), "standard_error": means[MODEL].standard_error, **accuracies}


def as_table(metrics: Mapping[str, Any]) -> str:
    """`summarize`'s metrics for a terminal: a phenomenon a line, accuracies times 100."""
    names = list(metrics["systems"])
    wide = max(map(len, ("macro mean of paradigms", *metrics["phenomena"])))
    lines = [f"{'':{wide}} {'pairs':>7} " + " ".join(f"{name:>8}" for name in names) + f" {'error':>6}"]
    for name, row in metrics["phenomena"].items():
        lines.append(_line(name, wide, row["pairs"], [row[system] for system in names], row["standard_error"]))
    own = next(iter(metrics["systems"].values()))
    for label, key in (("all pairs", ""), ("macro mean of paradigms", "macro_")):
        accuracies = [system[f"{key}accuracy"] for system in metrics["systems"].values()]
        lines.append(_line(label, wide, metrics["pairs"], accuracies, own[f"{key}standard_error"]))
    return "\n".join(lines)


def _line(name: str, wide: int, pairs: int, accuracies: list[float], error: float) -> str:
    shown = " ".join(f"{100 * accuracy:8.1f}" for accuracy in accuracies)
    return f"{name:{wide}} {pairs:7,} {shown} {100 * error:6.2f}"
