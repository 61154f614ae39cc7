"""Fixed numbers of bytes, sorted on disk: what is searched among more than memory holds."""

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIZE = 16
"""Bytes of an entry."""

_AT_ONCE = 2**20

Entries = NDArray[np.bytes_]
"""Sorted; those of a file are mapped."""


class SortedFiles:
    """Entries of evenly distributed first bytes. What is added becomes a file, and files of about the same length
    become one: there are few of them, however many entries. They have no names, so that they end with the process."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._files: list[Entries] = []  # each one longer than the one behind it

    def add(self, entries: Iterable[bytes]) -> None:
        """One or more entries."""
        parts = [np.sort(_array(entries))]
        while self._files and len(self._files[-1]) < 2 * sum(map(len, parts)):
            parts.append(self._files.pop())
        self._files.append(_merged(parts, self._directory))

    def contain(self, keys: Sequence[bytes]) -> list[bool]:
        """Of each key, whether it was added."""
        asked = _array(keys)
        found = np.zeros(len(asked), bool)
        for file in self._files:
            found |= file[np.minimum(np.searchsorted(file, asked), len(file) - 1)] == asked
        return found.tolist()

    def beginning_with(self, prefixes: Sequence[bytes], most: int = sys.maxsize) -> list[list[bytes]]:
        """Of each prefix, the entries that begin with it, in no order, of each file the last `most`; prefixes are of
        one length, below `SIZE`."""
        found: list[list[bytes]] = [[] for _ in prefixes]
        rest = SIZE - len(prefixes[0]) if prefixes else 0
        first, last = (_array(prefix + byte * rest for prefix in prefixes) for byte in (b"\x00", b"\xff"))
        for file in self._files:
            begins, ends = np.searchsorted(file, first), np.searchsorted(file, last, side="right")
            begins = np.maximum(begins, ends - most)
            for index in np.flatnonzero(begins < ends):
                found[index] += [entry.ljust(SIZE, b"\x00") for entry in file[begins[index] : ends[index]].tolist()]
        return found


def _array(entries: Iterable[bytes]) -> Entries:
    return np.frombuffer(b"".join(entries), f"S{SIZE}")


def _merged(parts: Sequence[Entries], directory: Path) -> Entries:
    """All of `parts` in a file of its own; about `_AT_ONCE` entries of them are in memory at a time."""
    count = sum(map(len, parts))
    pieces = count // _AT_ONCE + 1
    first = _array((2**32 * piece // pieces).to_bytes(4).ljust(SIZE, b"\x00") for piece in range(pieces))
    borders = [[*np.searchsorted(part, first).tolist(), len(part)] for part in parts]
    with tempfile.TemporaryFile(dir=directory) as file:
        for piece in range(pieces):
            alike = [part[places[piece] : places[piece + 1]] for part, places in zip(parts, borders, strict=True)]
            file.write(np.sort(np.concatenate(alike), kind="stable").tobytes())  # stable: merges what is sorted
        file.flush()
        return np.memmap(file, f"S{SIZE}", "r", shape=(count,))
