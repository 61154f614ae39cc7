"""What is normal: losses that trainings have reached, and how large a vocabulary a text can carry."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bertcore.errors import ArtifactError
from bertcore.masks import OCCURRENCES
from tasks.doctor.findings import Finding
from tasks.doctor.plan import Plan
from tasks.paths import METRICS

CURVES = Path("benchmarks/results/curves.json")
"""Curves that were measured, each with the page of benchmarks/results that tells how."""

ENOUGH = 100
"""Occurrences from which an embedding is learned well (Gowda and May 2020)."""
_FAR_TOO_FEW = ENOUGH / 2
_PERCENTILE = 0.95
_EULER = 0.5772156649
_SMALLEST, _LARGEST = 512, 50_000


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Held-out masked-LM loss of one training by the tokens that it had read."""

    architecture: str
    preset: str
    vocabulary: int
    """Entries: a loss is to be compared with that of as many only."""
    source: str
    points: tuple[tuple[float, float], ...]
    """(tokens, nats per predicted token), ascending."""

    def loss(self, tokens: float) -> float | None:
        """Between the measured points, straight over the logarithm of the tokens; None outside of them."""
        for (first, high), (second, low) in pairwise(self.points):
            if first <= tokens <= second:
                share = math.log(tokens / first) / math.log(second / first)
                return high + share * (low - high)
        return None


def read_curves(path: Path = CURVES) -> list[Curve]:
    """The curves in `path`; empty where there is no such file, `ArtifactError` where it holds none."""
    if not path.is_file():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return [Curve(**{**entry, "points": _ascending(entry["points"])}) for entry in entries]
    except (ValueError, TypeError, KeyError) as error:
        raise ArtifactError(
            f"{path}: found no curves ({' '.join(str(error).split())}), expected a list of objects with architecture, "
            "preset, vocabulary, source and points [[tokens, loss], …]; take it from the repository again"
        ) from None


def nearest_curve(curves: Sequence[Curve], architecture: str, preset: str, vocabulary: int) -> Curve | None:
    """The curve of `preset` whose vocabulary is the nearest in size."""
    found = [each for each in curves if each.architecture == architecture and each.preset == preset]
    return min(found, key=lambda each: abs(math.log(each.vocabulary / vocabulary)), default=None)


def occurrences(tokens: float, entries: int) -> float:
    """How often the entry at the 95th percentile of a vocabulary occurs among so many tokens, by Zipf's law."""
    return tokens / (_PERCENTILE * entries * (math.log(entries) + _EULER))


def vocabulary_for(tokens: float) -> int:
    """The largest vocabulary, a multiple of 64, whose entry at the 95th percentile occurs `ENOUGH` times."""
    low, high = _SMALLEST // 64, _LARGEST // 64
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if occurrences(tokens, 64 * middle) >= ENOUGH else (low, middle - 1)
    return 64 * low


def check_vocabulary_size(plan: Plan) -> Finding:
    """Whether the text shows the rarer entries of the vocabulary often enough to learn them."""
    counted = _counted(plan.encoder.vocab_size)
    tokens = plan.text_tokens()
    if counted is None and not tokens:
        return Finding(level="ok", name="entries", text="how often they occur is known when the text has been read")
    found = occurrences(tokens, plan.encoder.vocab_size) if counted is None else counted
    how = "by Zipf's law" if counted is None else "as counted"
    text = (
        f"{plan.encoder.vocab_size:,}; the one at the 95th percentile occurs about {found:,.0f} times in the text "
        f"({how}; {ENOUGH} are enough)"
    )
    if found >= _FAR_TOO_FEW or plan.configs["tokenizer"].vocab_file:
        return Finding(level="ok", name="entries", text=text)
    carried = vocabulary_for(tokens) if tokens else 0
    if carried >= plan.encoder.vocab_size:  # a smaller one would have such entries, too
        text += ", being a piece of longer ones, which came later: the text carries so many"
        return Finding(level="ok", name="entries", text=text)
    remedy = f"set tokenizer.vocab_size to about {carried:,}" if carried else "lower tokenizer.vocab_size"
    return Finding(level="warn", name="entries", text=text, remedy=f"{remedy}, or give more text")


def _counted(entries: int) -> float | None:
    """As the stage `mask` counted it in an earlier run; None where that one had a vocabulary of another size."""
    try:
        tokenizer, mask = (json.loads((METRICS / f"{name}.json").read_text("utf-8")) for name in ("tokenizer", "mask"))
        return float(mask[OCCURRENCES]) if tokenizer["vocab_size"] == entries else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ascending(points: list[list[float]]) -> tuple[tuple[float, float], ...]:
    found = tuple((float(tokens), float(loss)) for tokens, loss in points)
    if len(found) < 2 or any(before[0] >= after[0] for before, after in pairwise(found)):
        raise ValueError("points: expected two or more, with ascending tokens")
    return found
