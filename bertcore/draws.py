"""Random draws that are pure functions of their coordinates, so that any part can be drawn alone and again.

A sequential generator would tie every draw to all draws before it. Here a draw is a hash of (seed, stream,
coordinates): the mask of row 7 in epoch 3 is the same whoever draws it, in whatever order, on however many workers.
"""

import hashlib
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
Item = TypeVar("Item")

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def check_seed(seed: int) -> None:
    """`ValueError` for a seed that torch, NumPy or scikit-learn does not take."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed: found {seed}, expected 0 <= seed < 2^32, such as 1")


def key(*parts: int | str) -> int:
    """A 64-bit key of a tuple of coordinates that do not vary within one array of draws (seed, epoch, purpose …)."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def bits(stream: int | U64, counters: U64) -> U64:
    """64 random bits for each counter: the splitmix64 output function (Steele et al. 2014) at `stream` + counter.

    `stream` is one key, or an array of keys that broadcasts with `counters`.
    """
    with np.errstate(over="ignore"):
        mixed = (counters + np.uint64(1)) * _INCREMENT + np.asarray(stream, np.uint64)
        spare = np.empty_like(mixed)
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            mixed ^= np.right_shift(mixed, np.uint64(shift), out=spare)
            mixed *= factor
        mixed ^= np.right_shift(mixed, np.uint64(31), out=spare)
    return mixed


def uniform(stream: int | U64, counters: U64) -> NDArray[np.float64]:
    """Uniform in [0, 1), 53 bits each."""
    return (bits(stream, counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def fraction(*parts: int | str) -> float:
    """A number in [0, 1) that depends on `parts` alone."""
    return key(*parts) / 2.0**64


def fraction_of(seed: int, name: str) -> float:
    """A number in [0, 1) that depends on the seed and the name alone."""
    return fraction("fraction", seed, name)


def smallest(keyed: Iterable[tuple[int, Item]], most: int) -> list[Item]:
    """At most `most` of the items, by their keys of 64 bits: those of the smallest ones, ascending, one for each. Twice
    as many are held at once."""
    assert most > 0, f"a sample of {most}"
    chosen: dict[int, Item] = {}
    bound = 2**64
    for number, item in keyed:
        if number < bound:
            chosen[number] = item
        if len(chosen) >= 2 * most:
            kept = sorted(chosen)[:most]
            chosen, bound = {each: chosen[each] for each in kept}, kept[-1]
    return [chosen[each] for each in sorted(chosen)[:most]]


def permutation(stream: int, size: int) -> NDArray[np.int64]:
    """A permutation of range(size): the order of `size` draws; ties are broken by the index."""
    return np.argsort(bits(stream, np.arange(size, dtype=np.uint64)), kind="stable")
