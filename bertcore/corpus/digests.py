"""A set of digests larger than memory: the latest ones are held, all others are on disk, sorted."""

from collections.abc import Sequence
from pathlib import Path

from bertcore.corpus.sorted_files import SortedFiles

MOST = 1_000_000
"""Digests that are held, about 100 bytes each (what Python adds included)."""


class Digests:
    """The digests that were added so far, each of `SIZE` evenly distributed bytes (see `sorted_files`)."""

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
