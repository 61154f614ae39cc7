"""Which documents repeat an earlier one: to the letter, by their digests, or nearly, by their signatures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertcore.corpus.near_duplicates import NearDuplicates, NearDuplicatesConfig, Signatures
from bertcore.corpus.sorted_files import SortedFiles

MOST = 1_000_000
"""Digests that are held, about 100 bytes each (what Python adds included)."""


class Digests:
    """The digests that were added so far, each of `SIZE` evenly distributed bytes (see `sorted_files`): the latest ones
    are held, all others are on disk, sorted."""

    def __init__(self, directory: Path, most: int = MOST):
        self._most = most
        self._latest: set[bytes] = set()
        self._others = SortedFiles(directory)

    def add(self, digests: Sequence[bytes]) -> list[bool]:
        """Add digests; of each, in order, whether it was not there before."""
        new = []
        for digest, known in zip(digests, self._others.contain(digests), strict=True):
            new.append(not known and digest not in self._latest)
            if new[-1]:
                self._latest.add(digest)
        if len(self._latest) >= self._most:
            self._others.add(self._latest)
            self._latest.clear()
        return new


class Seen:
    """The candidates so far, in the order of the sources: the first of several that are alike is kept. Where their
    digests and signatures outgrow the memory, they are on disk, beside the corpus."""

    def __init__(self, near: NearDuplicatesConfig | None, directory: Path):
        self._digests = Digests(directory)
        self._near = NearDuplicates(near, directory) if near else None

    def objections(self, digests: Sequence[bytes], signatures: Signatures | None) -> dict[str, NDArray[np.int64]]:
        """By reason those of some candidates that do not enter the corpus."""
        new = np.array(self._digests.add(digests), bool)
        firsts = np.flatnonzero(new)
        unlike = np.ones(len(firsts), bool)
        if self._near and signatures is not None:
            unlike = np.array(self._near.add(signatures[firsts]), bool)
        return {"exact_duplicate": np.flatnonzero(~new), "near_duplicate": firsts[~unlike]}
