"""Ragged rows in flat arrays: rows of any length lie end to end, and offsets say where each begins."""

import numpy as np
from numpy.typing import NDArray


def offsets_of(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """(N + 1,) starts of ragged rows of `lengths` (N,), and their end."""
    offsets = np.empty(len(lengths) + 1, np.int64)
    offsets[0] = 0
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices start, start + 1, … of every ragged row, one after the other."""
    offsets = offsets_of(lengths)
    indices = np.repeat(starts - offsets[:-1], lengths)
    indices += np.arange(offsets[-1])
    return indices
