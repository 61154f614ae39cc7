"""What is normal: losses that trainings have reached, and when a vocabulary is too large for its text."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bertcore.errors import ArtifactError
from bertcore.vocabulary.size import FAR_TOO_FEW, vocabulary_for

CURVES = Path("tasks/reporting/curves.json")
"""Curves that were measured."""

_ALIKE = 1.1
"""Encoders whose sizes and vocabularies differ by less than this factor are compared."""
_COMPARABLE = 2.0
"""Of vocabularies, in one size: with a larger one every token is harder to guess."""
_NEARLY = 0.8
"""Of a vocabulary: from a text that carries so much of it, no other one is proposed."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Held-out masked-LM loss of one training by the tokens that it had read."""

    architecture: str
    preset: str
    vocabulary: int
    """Entries: a loss is to be compared with that of as many only."""
    parameters: int
    """Of the encoder, heads included."""
    source: str
    """The page of benchmarks/results that tells how it was measured."""
    unigram_loss: float
    """What the frequencies of the tokens alone come to on the same held-out text: by it, texts compare."""
    points: tuple[tuple[float, float], ...]
    """(tokens, nats per predicted token), ascending."""

    def loss(self, tokens: float) -> float | None:
        """Between the measured points, straight over the logarithm of the tokens; None outside of them, but for a
        hundredth: as many steps of another text are not quite as many tokens."""
        if tokens > self.points[-1][0]:
            return self.points[-1][1] if tokens <= 1.01 * self.points[-1][0] else None
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
            "preset, vocabulary, parameters, source, unigram_loss and points [[tokens, loss], …]; take it from the "
            "repository again"
        ) from None


def alike(curves: Sequence[Curve], architecture: str | None, parameters: float, vocabulary: int) -> list[Curve]:
    """Those of encoders of about this size, with about so many entries."""
    return [
        each
        for each in curves
        if each.architecture == architecture
        and _near(parameters, each.parameters, _ALIKE)
        and _near(vocabulary, each.vocabulary, _ALIKE)
    ]


def _near(found: float, measured: float, factor: float) -> bool:
    return 1 / factor < found / measured < factor


def nearest_curve(curves: Sequence[Curve], architecture: str, preset: str, vocabulary: int) -> Curve | None:
    """The curve of `preset` whose vocabulary is the nearest in size; None where none is within a factor of two."""
    of_preset = [each for each in curves if each.architecture == architecture and each.preset == preset]
    found = [each for each in of_preset if _near(vocabulary, each.vocabulary, _COMPARABLE)]
    return min(found, key=lambda each: abs(math.log(each.vocabulary / vocabulary)), default=None)


def carried_instead(found: float, tokens: float, entries: int) -> int | None:
    """The vocabulary size that fits a text of `tokens`, where `entries` are far too many; None where they are not,
    0 where `tokens` is 0, which stands for unknown.

    `found`: occurrences of the entry at the 95th percentile. That it is rare does not prove `entries` too many: pieces
    that longer entries have absorbed are rare in a vocabulary of any size.
    """
    if found >= FAR_TOO_FEW:
        return None
    carried = vocabulary_for(tokens) if tokens else 0
    return None if carried > _NEARLY * entries else carried


def _ascending(points: list[list[float]]) -> tuple[tuple[float, float], ...]:
    found = tuple((float(tokens), float(loss)) for tokens, loss in points)
    if len(found) < 2 or any(before[0] >= after[0] for before, after in pairwise(found)):
        raise ValueError("points: expected two or more, with ascending tokens")
    return found
