"""The best answers against a search over all spans of all windows."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.finetune.answers import Window, best_answers, null_score, with_probabilities


def random_windows(seed: int, count: int, tokens: int) -> tuple[list[Window], str]:
    """Windows with whole-number logits, so that scores tie, over a context of words of one letter."""
    generator = np.random.default_rng(seed)
    context = " ".join(generator.choice(list("abc"), size=tokens + 3 * count))
    windows = []
    for index in range(count):
        places = np.arange(3 * index, 3 * index + tokens)
        windows.append(
            Window(
                start_logits=generator.integers(-3, 4, tokens).astype(np.float32),
                end_logits=generator.integers(-3, 4, tokens).astype(np.float32),
                null_logits=(float(generator.integers(-3, 4)), float(generator.integers(-3, 4))),
                characters=np.stack([2 * places, 2 * places + 1], axis=1).astype(np.int32),
                owned=generator.random(tokens) < 0.7,
            )
        )
    return windows, context


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(0, 12), st.integers(1, 6), st.integers(1, 8))
def test_best_answers_are_those_of_a_search(seed: int, count: int, tokens: int, n_best: int, longest: int) -> None:
    windows, context = random_windows(seed, count, tokens)
    spans = [
        (float(window.start_logits[first] + window.end_logits[last]), window, first, last)
        for window in windows
        for first in range(tokens)
        for last in range(first, min(first + longest, tokens))
        if window.owned[first]
    ]
    found = best_answers(windows, context, n_best, longest)
    scores = [answer["score"] for answer in found]
    assert scores == sorted(scores, reverse=True) and len(found) <= n_best
    assert len({answer["text"] for answer in found}) == len(found)
    assert bool(found) == bool(spans)
    if spans:
        assert scores[0] == max(score for score, *_ in spans)
    for answer in found:
        assert any(
            answer["text"] == context[window.characters[first, 0] : window.characters[last, 1]]
            and answer["start"] == window.characters[first, 0]
            and answer["start_logit"] == window.start_logits[first]
            and answer["end_logit"] == window.end_logits[last]
            for _, window, first, last in spans
        )


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_null_score_is_that_of_the_window_that_is_least_sure(seed: int, count: int) -> None:
    windows, _ = random_windows(seed, count, 4)
    assert null_score(windows)["score"] == min(sum(window.null_logits) for window in windows)


def test_probabilities_are_the_softmax_of_the_scores() -> None:
    windows, context = random_windows(1, 2, 8)
    answers = with_probabilities([null_score(windows), *best_answers(windows, context, 5, 4)])
    assert sum(answer["probability"] for answer in answers) == pytest.approx(1.0)
    scores = [answer["start_logit"] + answer["end_logit"] for answer in answers]
    for (high, first), (low, second) in pairwise(zip(scores, answers, strict=True)):
        assert first["probability"] / second["probability"] == pytest.approx(np.exp(high - low))
    assert with_probabilities([])[0]["text"] == ""


@pytest.mark.parametrize(
    ("word", "following"),
    [
        ("Zoe\u0308", " sang"),  # dropped by the tokenizer
        ("हिन्दू", "।"),  # Mn and Mc within, Mn at the end
        ("e\u0301\u0323", ""),
    ],
)
def test_answer_has_the_marks_of_its_last_character(word: str, following: str, tokenizer: Tokenizer) -> None:
    context = f"the {word}{following}"
    encoding = tokenizer.encode(context, add_special_tokens=False)
    characters = np.asarray(encoding.offsets, dtype=np.int32)
    last = next(place for place, (begin, _) in reversed(list(enumerate(encoding.offsets))) if begin < 4 + len(word))
    logits = np.full(len(characters), -1.0, dtype=np.float32)
    starts, ends = logits.copy(), logits.copy()
    starts[1], ends[last] = 5.0, 5.0
    window = Window(
        start_logits=starts,
        end_logits=ends,
        null_logits=(0.0, 0.0),
        characters=characters,
        owned=np.ones(len(characters), dtype=bool),
    )
    assert best_answers([window], context, 1, 30)[0]["text"] == word
