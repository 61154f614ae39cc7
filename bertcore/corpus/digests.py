"""A set of digests larger than memory: the latest ones are held, all others are on disk, sorted."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIZE = 16
"""Bytes of a digest."""
MOST = 1_000_000
"""Digests that are held, about 100 bytes each (what Python adds included)."""

Run = NDArray[np.bytes_]
"""Sorted digests of a file, mapped."""


class Digests:
    """The digests that were added so far.

    When `most` are held, they become a sorted file, and files of about the same length become one: there are few of
    them, however many digests. They have no names, so that they end with the process.
    """

    def __init__(self, directory: Path, most: int = MOST):
        self._directory, self._most = directory, most
        self._latest: set[bytes] = set()
        self._runs: list[Run] = []  # each one longer than the one behind it

    def add(self, digests: Sequence[bytes]) -> list[bool]:
        """Add digests of `SIZE` evenly distributed bytes; of each, in order, whether it was not there before."""
        found = self._on_disk(digests)
        new = []
        for digest, known in zip(digests, found, strict=True):
            new.append(not known and digest not in self._latest)
            if new[-1]:
                self._latest.add(digest)
        if len(self._latest) >= self._most:
            self._write()
        return new

    def _on_disk(self, digests: Sequence[bytes]) -> list[bool]:
        keys = np.array(digests, f"S{SIZE}")
        found = np.zeros(len(keys), bool)
        for run in self._runs:
            found |= run[np.minimum(np.searchsorted(run, keys), len(run) - 1)] == keys
        return found.tolist()

    def _write(self) -> None:
        runs = [np.sort(np.frombuffer(b"".join(self._latest), f"S{SIZE}"))]
        self._latest.clear()
        while self._runs and len(self._runs[-1]) < 2 * sum(map(len, runs)):
            runs.append(self._runs.pop())
        self._runs.append(_merged(runs, self._directory))


def _merged(runs: Sequence[Run], directory: Path) -> Run:
    """All of `runs` in a file of its own; about a 256th of them is in memory at a time."""
    borders = [_borders(run) for run in runs]
    with tempfile.TemporaryFile(dir=directory) as file:
        for byte in range(256):
            parts = [run[places[byte] : places[byte + 1]] for run, places in zip(runs, borders, strict=True)]
            file.write(np.sort(np.concatenate(parts)).tobytes())
        file.flush()
        return np.memmap(file, f"S{SIZE}", "r", shape=(sum(map(len, runs)),))


def _borders(run: Run) -> list[int]:
    """Where the digests that begin with each byte begin, and where the last ones end."""
    first = np.array([bytes([byte]) for byte in range(256)], f"S{SIZE}")
    return [*np.searchsorted(run, first).tolist(), len(run)]
