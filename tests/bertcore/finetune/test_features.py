"""Windows against their definition, and the window of most context against a search in the manner of the original."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bertcore.finetune.features import best_windows, chunks, windows

SIZES = st.lists(st.integers(1, 5), max_size=60)


@given(SIZES, st.integers(5, 20), st.integers(1, 30))
def test_windows_hold_every_unit_and_no_more_than_fits(sizes: list[int], capacity: int, stride: int) -> None:
    found = windows(np.asarray(sizes, dtype=np.int64), capacity, stride)
    seen = {unit for first, end in found for unit in range(first, end)}
    assert seen == set(range(len(sizes)))
    assert all(0 < sum(sizes[first:end]) <= capacity for first, end in found)
    assert all(a < c and b < d and c <= b for (a, b), (c, d) in zip(found, found[1:], strict=False))
    assert all(end == len(sizes) or sum(sizes[first : end + 1]) > capacity for first, end in found)


def original_windows(total: int, capacity: int, stride: int) -> list[tuple[int, int]]:
    """google-research/bert's loop, for tokens."""
    found, start = [], 0
    while start < total:
        length = min(total - start, capacity)
        found.append((start, start + length))
        if start + length == total:
            break
        start += min(length, stride)
    return found


@given(st.integers(0, 300), st.integers(1, 50), st.integers(1, 60))
def test_windows_of_tokens_are_the_originals(total: int, capacity: int, stride: int) -> None:
    found = windows(np.ones(total, dtype=np.int64), capacity, stride)
    assert [tuple(window) for window in found.tolist()] == original_windows(total, capacity, stride)


@given(st.integers(1, 200), st.integers(1, 50), st.integers(1, 60))
def test_best_window_is_that_of_the_original_rule(total: int, capacity: int, stride: int) -> None:
    spans = original_windows(total, capacity, stride)
    found = best_windows(np.asarray(spans), np.arange(total))
    for place in range(total):
        best, best_score = None, -1.0
        for index, (first, end) in enumerate(spans):
            if first <= place < end:
                score = min(place - first, end - 1 - place) + 0.01 * (end - first)
                if best is None or score > best_score:
                    best, best_score = index, score
        assert found[place] == best


@given(st.lists(st.integers(0, 900_000), max_size=12))
def test_texts_are_tokenised_in_parts_of_a_bounded_size(sizes: list[int]) -> None:
    texts = ["x" * size for size in sizes]
    parts = list(chunks(texts))
    assert [text for part in parts for text in part] == texts and all(parts)
    assert all(len(part) == 1 or sum(map(len, part)) <= 2_000_000 for part in parts)
    assert all(sum(map(len, one)) + len(other[0]) > 2_000_000 for one, other in pairwise(parts))


def test_many_short_texts_are_tokenised_in_parts() -> None:
    assert [len(part) for part in chunks([("a", "b")] * 5000)] == [2048, 2048, 904]
