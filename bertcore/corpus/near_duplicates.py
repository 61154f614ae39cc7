"""Documents that nearly repeat an earlier one, found by MinHash signatures in bands (locality-sensitive hashing)."""

import hashlib
import weakref
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash

from bertcore.corpus.ngrams import ngram_texts
from bertcore.corpus.sorted_files import SIZE, SortedFiles

HASHES = 128
"""Of a signature, 4 bytes each. The similarity they say is off by 0.035 where two texts are alike by 0.8."""
SEED = 1
MOST = 400_000
"""Bands of which documents are held, about 250 bytes each (what Python adds included)."""
_KEY = 10
"""Bytes that a band is found by: of 10**10 bands, hardly two are alike by chance. The rest of an entry is a number."""

Values = NDArray[np.uint32]
"""(HASHES,): a signature."""


@dataclass(frozen=True, kw_only=True)
class NearDuplicatesConfig:
    """Section `corpus.near_duplicates` of params.yaml."""

    threshold: float = 0.8
    """Share of two documents' n-grams that both have (Jaccard's index), from which the later one is dropped."""
    ngram: int = 5
    """Words of an n-gram, in the form of `ngrams`; in scripts without blanks, two characters are a word."""

    def __post_init__(self) -> None:
        if not 0.3 <= self.threshold <= 1:
            raise ValueError(f"threshold: found {self.threshold}, expected a share between 0.3 and 1")
        if self.ngram < 1:
            raise ValueError(f"ngram: found {self.ngram}, expected at least 1 word")


class NearDuplicates:
    """The documents that were kept so far: their signatures on disk, 512 bytes each, and of each band the documents
    that have it, the latest ones in memory and all others on disk, sorted."""

    def __init__(self, config: NearDuplicatesConfig, directory: Path, most: int = MOST):
        self._threshold, self._bands, self._most = config.threshold, bands(config.threshold), most
        self._signatures = TemporaryFile(dir=directory)  # noqa: SIM115  (open as long as this object is there)
        weakref.finalize(self, self._signatures.close)
        self._latest: defaultdict[bytes, list[int]] = defaultdict(list)
        self._kept, self._held = 0, 0
        self._others = SortedFiles(directory)

    def add(self, signatures: Sequence[RMinHash]) -> list[bool]:
        """Keep each text, in order, unless one that was kept before is as similar as the threshold says; whether it was
        kept. The signatures are of n-grams of the same length."""
        values = [np.array(each.digest(), np.uint32) for each in signatures]
        keys = [_keys(each, self._bands) for each in values]
        others = iter(self._others.beginning_with([key for each in keys for key in each]))
        kept = []
        for value, own in zip(values, keys, strict=True):
            alike = {_number(entry) for key in own for entry in next(others)}
            alike.update(number for key in own for number in self._latest.get(key, ()))
            kept.append(not any(self._repeats(number, value) for number in sorted(alike)))
            if kept[-1]:
                self._keep(value, own)
        if self._held >= self._most:
            self._others.add(key + _bytes(number) for key, numbers in self._latest.items() for number in numbers)
            self._latest.clear()
            self._held = 0
        return kept

    def _repeats(self, number: int, value: Values) -> bool:
        self._signatures.seek(number * value.nbytes)
        of_other = np.frombuffer(self._signatures.read(value.nbytes), np.uint32)
        return bool((of_other == value).mean() >= self._threshold)

    def _keep(self, value: Values, keys: Sequence[bytes]) -> None:
        self._signatures.seek(self._kept * value.nbytes)
        self._signatures.write(value.tobytes())
        for key in keys:
            self._latest[key].append(self._kept)
        self._kept, self._held = self._kept + 1, self._held + len(keys)


def _keys(value: Values, count: int) -> list[bytes]:
    """What the bands of a signature are found by."""
    return [
        hashlib.blake2b(band.tobytes(), digest_size=_KEY, salt=index.to_bytes(2)).digest()
        for index, band in enumerate(value.reshape(count, -1))
    ]


def _bytes(number: int) -> bytes:
    return number.to_bytes(SIZE - _KEY)


def _number(entry: bytes) -> int:
    return int.from_bytes(entry[_KEY:])


def signature(text: str, ngram: int) -> RMinHash:
    """What is compared of a text: the least hashes of its n-grams."""
    found = RMinHash(num_perm=HASHES, seed=SEED)
    found.update(ngram_texts(text, ngram))
    return found


def bands(threshold: float) -> int:
    """The fewest bands that miss hardly any pair of the threshold's similarity: two documents share a band with even
    odds at (1 / bands) ** (bands / hashes), which shall lie a tenth below the threshold."""
    return next(count for count in (2, 4, 8, 16, 32, 64, 128) if (1 / count) ** (count / HASHES) <= 0.9 * threshold)
