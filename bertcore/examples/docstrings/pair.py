"""Task `pair`: does this summary belong to this body?

Docstrings of one module are taken two at a time; each of the two summaries stands once with each of the two bodies.
So every summary and every body occurs once as "yes" and once as "no": neither side alone says anything about the label,
and the topic of the module is the same in both.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertcore.corpus.sources.pydoc.prose import prose
from bertcore.examples.docstrings.table import Docstring, Row, build_splits, draw, read_docstrings, shuffled
from bertcore.examples.schema import CLASSIFICATION, ExampleSet

MIN_SUMMARY_WORDS, MAX_SUMMARY_WORDS = 5, 30
MIN_BODY_WORDS, MAX_BODY_WORDS = 15, 60
MAX_SHARED_WORDS = 0.6  # of two bodies or two summaries; above it either would do
SHORTEST_NAME = 3  # characters of a definition's name that is removed
SENTENCE_END = re.compile(r"(?<=[a-z0-9)][.!?]) (?=[A-Z])")


@dataclass(frozen=True)
class Parts:
    """A docstring in two."""

    docstring: Docstring
    summary: str
    body: str


def read_pair(directory: Path) -> ExampleSet:
    """Pairs of a summary (text_a) and a body (text_b) of the same module, half of them of the same docstring."""
    dropped: Counter[str] = Counter()

    def groups(members: list[Docstring], split: str) -> Iterator[list[Row]]:
        modules = defaultdict(list)
        for docstring in shuffled(members, "pair"):
            modules[docstring.module].append(docstring)
        for module in sorted(modules, key=lambda module: draw("pair", module)):
            for first, second in _couples(modules[module], dropped):
                yield [_row(a, b) for a in (first, second) for b in (first, second)]

    splits = build_splits(
        read_docstrings(directory), groups, lambda row: row["text_b"] + "\n" + row["label"], CLASSIFICATION, dropped
    )
    return ExampleSet(
        family="classification",
        labels=["no", "yes"],
        metrics=["accuracy", "macro_f1"],
        splits=splits,
        dropped=dict(dropped),
    )


def split_docstring(docstring: Docstring) -> Parts | None:
    """Summary and body, cut to their word limits; None where either is too short or the summary too long."""
    first, *rest = prose(docstring.docstring).splitlines()
    sentences = SENTENCE_END.split(first, maxsplit=1)
    summary, body = sentences[0], " ".join([*sentences[1:], *rest]).split()
    if not MIN_SUMMARY_WORDS <= len(summary.split()) <= MAX_SUMMARY_WORDS or len(body) < MIN_BODY_WORDS:
        return None
    return Parts(docstring, summary, " ".join(body[:MAX_BODY_WORDS]))


def _couples(docstrings: list[Docstring], dropped: Counter[str]) -> Iterator[tuple[Parts, Parts]]:
    """Docstrings two at a time, each used at most once, the own names of both removed from both."""
    waiting: list[Parts] = []
    for docstring in docstrings:
        parts = split_docstring(docstring)
        if parts is None:
            dropped["no summary with a body"] += 1
            continue
        for other in waiting:
            names = _names(parts, other)
            couple = _without(other, names), _without(parts, names)
            if _differ(*couple):
                waiting.remove(other)
                yield couple
                break
        else:
            waiting.append(parts)
    dropped["no different docstring left in the module"] += len(waiting)


def _names(*members: Parts) -> re.Pattern[str]:
    names = {name for parts in members for name in parts.docstring.qualname.split(".") if len(name) >= SHORTEST_NAME}
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{alternatives or '(?!)'})(?![A-Za-z0-9_])(?:\(\))?", re.IGNORECASE)


def _without(parts: Parts, names: re.Pattern[str]) -> Parts:
    summary, body = (" ".join(names.sub(" ", text).split()) for text in (parts.summary, parts.body))
    return Parts(parts.docstring, summary, body)


def _differ(first: Parts, second: Parts) -> bool:
    """Whether one could tell which summary belongs to which body."""
    for one, other in ((first.summary, second.summary), (first.body, second.body)):
        words, others = set(one.lower().split()), set(other.lower().split())
        if min(len(words), len(others)) < MIN_SUMMARY_WORDS - 1:
            return False
        if len(words & others) > MAX_SHARED_WORDS * min(len(words), len(others)):
            return False
    return True


def _row(a: Parts, b: Parts) -> Row:
    return {
        "id": f"{a.docstring.id}|{b.docstring.id}",
        "text_a": a.summary,
        "text_b": b.body,
        "label": "yes" if a is b else "no",
    }
