"""From the logits of a question's windows to its best answers."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Window:
    """The C tokens of a context that one window shows, with what the model says about them."""

    start_logits: NDArray[np.float32]
    """(C,)"""
    end_logits: NDArray[np.float32]
    """(C,)"""
    null_logits: tuple[float, float]
    """Start and end at [CLS]."""
    characters: NDArray[np.int32]
    """(C, 2) first character and end of each token in the context."""
    owned: NDArray[np.bool_]
    """(C,) tokens that an answer may start with; the others have more context in another window."""


class _Scored(TypedDict):
    text: str
    start: int | None
    start_logit: float
    end_logit: float
    score: float


class Answer(TypedDict):
    """One entry of the n-best list, in the official layout but for `start`."""

    text: str
    start: int | None
    """Characters of the context before it; None for no answer."""
    probability: float
    start_logit: float
    end_logit: float


def best_answers(windows: Sequence[Window], context: str, n_best: int, max_answer_length: int) -> list[_Scored]:
    """The at most `n_best` spans with the largest sum of start and end logit, the best first; of equal texts the best.

    All spans of at most `max_answer_length` tokens are looked at whose first token the window owns, not only those
    between the best starts and the best ends, as in the official code. Texts are cut out of `context`.
    """
    candidates = [
        (score, index, first, last)
        for index, window in enumerate(windows)
        for score, first, last in _spans(window, n_best, max_answer_length)
    ]
    candidates.sort(key=lambda candidate: (-candidate[0], *candidate[1:]))
    found: dict[str, _Scored] = {}
    for _, index, first, last in candidates:
        window = windows[index]
        start = int(window.characters[first, 0])
        text = _cut(context, start, int(window.characters[last, 1]))
        if text and text not in found:
            found[text] = _scored(text, start, float(window.start_logits[first]), float(window.end_logits[last]))
    return list(found.values())[:n_best]


def _cut(context: str, begin: int, end: int) -> str:
    """`context[begin:end]` with the marks on its last character: an uncased tokenizer drops accents that are characters
    of their own, so that no token ends behind them."""
    while end < len(context) and unicodedata.category(context[end]) in ("Mn", "Me", "Mc"):
        end += 1
    return context[begin:end]


def null_score(windows: Sequence[Window]) -> _Scored:
    """ "No answer", as sure as the window that is least sure of it."""
    return _scored("", None, *min((window.null_logits for window in windows), key=sum))


def with_probabilities(answers: Sequence[_Scored]) -> list[Answer]:
    """Best first, with the softmax over their scores; at least the empty answer."""
    ordered = sorted(answers or [_scored("", None, 0.0, 0.0)], key=lambda answer: -answer["score"])
    weights = np.exp(np.asarray([answer["score"] for answer in ordered]) - ordered[0]["score"])
    return [
        {
            "text": answer["text"],
            "start": answer["start"],
            "probability": float(probability),
            "start_logit": answer["start_logit"],
            "end_logit": answer["end_logit"],
        }
        for answer, probability in zip(ordered, weights / weights.sum(), strict=True)
    ]


def _spans(window: Window, count: int, max_length: int) -> list[tuple[float, int, int]]:
    """Score, first and last token of the best spans, at most `count`."""
    tokens = len(window.start_logits)
    if not tokens:
        return []
    ends = np.concatenate([window.end_logits, np.full(max_length - 1, -np.inf)])
    by_length = np.lib.stride_tricks.sliding_window_view(ends, max_length)  # (C, max_length)
    starts = np.where(window.owned, window.start_logits, -np.inf)
    scores = (starts[:, None] + by_length).ravel()
    wanted = min(count, len(scores))
    threshold = np.partition(scores, len(scores) - wanted)[len(scores) - wanted]
    (kept,) = np.nonzero((scores >= threshold) & np.isfinite(scores))
    kept = kept[np.argsort(-scores[kept], kind="stable")][:wanted]
    return [(float(scores[at]), int(at // max_length), int(at // max_length + at % max_length)) for at in kept]


def _scored(text: str, start: int | None, start_logit: float, end_logit: float) -> _Scored:
    score = start_logit + end_logit
    return {"text": text, "start": start, "start_logit": start_logit, "end_logit": end_logit, "score": score}
