"""Vectors of length 1, and in fewer bits: 8 or 1 for each number, a quarter or a thirty-second of the space."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertcore.embedding.vectors import normalized

Precision = Literal["float32", "int8", "binary"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
LARGEST = 127


def compact(vectors: NDArray[np.float32], precision: Precision) -> NDArray[Any]:
    """(N, H) float32 -> (N, H) itself; int8, each row's largest number being `LARGEST`; or (N, H / 8 rounded up) uint8,
    whose bits (the highest first) say which numbers are positive."""
    if precision == "binary":
        return np.packbits(vectors > 0, axis=1)
    if precision == "int8":
        largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.float32(1e-12))
        return np.rint(vectors * (LARGEST / largest)).astype(np.int8)
    return vectors


def restored(vectors: NDArray[Any], precision: Precision, width: int) -> NDArray[np.float32]:
    """What `compact` has left of vectors of `width` numbers, again with length 1."""
    if precision == "float32":
        return vectors
    if precision == "binary":
        return (2 * np.unpackbits(vectors, axis=1, count=width).astype(np.float32) - 1) * np.float32(width**-0.5)
    return normalized(vectors.astype(np.float32))
