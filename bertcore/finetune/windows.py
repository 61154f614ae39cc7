"""Long inputs in overlapping windows, and which window sees a token best (google-research/bert, run_squad.py)."""

import numpy as np
from numpy.typing import NDArray

_LENGTH_WEIGHT = 0.01
"""What a token of a window's length counts beside a token of context; between two windows the same."""


def windows(sizes: NDArray[np.int64], capacity: int, stride: int) -> NDArray[np.int64]:
    """Windows over units (words or tokens) of `sizes` tokens, each at most `capacity`: (W, 2) first unit and end.

    A window takes as many units as fit. The next one begins at the first unit that lies `stride` tokens behind the
    beginning of the last, but never leaves a unit out between them. The last window ends with the last unit.
    """
    ends = np.cumsum(sizes)
    starts = ends - sizes
    found: list[tuple[int, int]] = []
    first = 0
    while first < len(sizes):
        end = int(np.searchsorted(ends, starts[first] + capacity, side="right"))
        found.append((first, end))
        if end == len(sizes):
            break
        # Far enough to show at least the unit `end`, which did not fit.
        least = max(starts[first] + stride, ends[end] - capacity)
        first = min(int(np.searchsorted(starts, least, side="left")), end)
    return np.asarray(found, dtype=np.int64).reshape(-1, 2)


def best_windows(spans: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each token of `places` (P,), the window that has most context around it; `spans` (W, 2): first token and end.

    Context is the smaller of the numbers of tokens before and behind it in the window, plus a little for the window's
    length; of equal windows the first. Every token must lie in a window.
    """
    first, end = spans[:, :1], spans[:, 1:]
    context = np.minimum(places - first, end - 1 - places) + _LENGTH_WEIGHT * (end - first)
    inside = (places >= first) & (places < end)
    assert inside.any(axis=0).all(), "a token outside of all windows"
    return np.where(inside, context, -np.inf).argmax(axis=0)
