"""What needs no network, as the comparison shows it beside its variants."""

import statistics
from collections.abc import Mapping, Sequence

from tasks.comparing.variant import Variant

SIMPLE = "simple baseline"
"""Its name in the table of scores."""


def simple_scores(variants: Sequence[Variant]) -> dict[str, dict[str, float]]:
    """Name of what needs no network -> task -> its score: the most frequent answer (`majority`), and the simple
    baseline (`SIMPLE`), or that answer where a task has none. Each is of the variant for which it is best, as what they
    learn from is the variant's part of train."""
    majority: dict[str, float] = {}
    simple: dict[str, float] = {}
    for score in (score for variant in variants for score in variant.scores.values()):
        majority[score.task] = max(score.majority, majority.get(score.task, score.majority))
        simple[score.task] = max(score.simple, simple.get(score.task, score.simple))
    return {"majority": majority, SIMPLE: simple}


def mean_of(scores: Mapping[str, float], variants: Sequence[Variant]) -> float | None:
    """The mean of `scores` over the tasks that the means of `variants` are over; None without any."""
    compared = variants[0].compared_tasks if variants else None
    found = [score for task, score in scores.items() if compared is None or task in compared]
    return statistics.mean(found) if found else None


def simple_mean(variants: Sequence[Variant]) -> float | None:
    """The mean of the simple baselines over the tasks that the means of `variants` are over; None without any."""
    return mean_of(simple_scores(variants)[SIMPLE], variants)
