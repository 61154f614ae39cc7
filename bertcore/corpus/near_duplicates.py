"""Documents that nearly repeat an earlier one, found by MinHash signatures in bands (locality-sensitive hashing)."""

import hashlib
import weakref
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash

from bertcore.config import within
from bertcore.corpus.ngrams import ngram_texts
from bertcore.corpus.sorted_files import SIZE, SortedFiles

HASHES = 128
"""Of a signature, 4 bytes each. At a true similarity of 0.8 the standard error of the estimate is 0.035."""
_MISSED = 0.03
"""Of the pairs whose similarity is the threshold, at most so many share no band; of more similar ones fewer do."""
SEED = 1
MOST = 400_000
"""Bands of which documents are held, about 250 bytes each (what Python adds included)."""
_NOTHING = np.iinfo(np.uint32).max
"""Of the signature of a text without n-grams, which is like no other."""
_COMPARED = 100
"""Documents with which one is compared because they share a certain band, the latest ones in memory and in each file.
Copies share many bands; those of a template, which are not alike enough, may share one by thousands."""
_AT_ONCE = 10_000
"""N-grams of a document that are held at once."""
_KEY = 10
"""Bytes that a band is found by: of 10**10 bands, hardly two are alike by chance. The rest of an entry is a number."""

Values = NDArray[np.uint32]
"""(HASHES,): a signature."""
Signatures = NDArray[np.uint32]
"""(documents, HASHES)."""


@dataclass(frozen=True, kw_only=True)
class NearDuplicatesConfig:
    """Section `corpus.near_duplicates` of params.yaml."""

    threshold: float = 0.8
    """The later of two documents is dropped where both share this much of their n-grams, or more (Jaccard's index), as
    128 hashes of each estimate it: at this share itself about every other one is."""
    ngram: int = 5
    """Words of an n-gram, in the form of `ngrams`; in scripts without blanks, two characters are a word."""

    def __post_init__(self) -> None:
        within(self, "threshold", "a share between 0.3 and 1", least=0.3, most=1)
        within(self, "ngram", "at least 1 word", least=1)


class NearDuplicates:
    """The signatures of the documents kept so far, and by band the numbers of the documents that have it. The latest
    are in memory, numbered among themselves; all others are on disk, their bands sorted."""

    def __init__(self, config: NearDuplicatesConfig, directory: Path, most: int = MOST):
        self._threshold, self._bands, self._most = config.threshold, bands(config.threshold), most
        self._latest: defaultdict[bytes, list[int]] = defaultdict(list)
        self._signatures: list[Values] = []
        self._others = SortedFiles(directory)
        # Nothing is left in an unbuffered file that would have to be written when it is closed.
        self._file = TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115  (open as long as this object is there)
        weakref.finalize(self, self._file.close)
        self._of_others: Signatures = np.empty((0, HASHES), np.uint32)

    def add(self, signatures: Sequence[Values] | Signatures) -> list[bool]:
        """Keep each text, in order, unless one that was kept before is as similar as the threshold says; whether it was
        kept. The signatures are of n-grams of the same length."""
        keys = [_keys(each, self._bands) for each in signatures]
        others = iter(self._others.beginning_with([key for each in keys for key in each], _COMPARED))
        kept = []
        for value, own in zip(signatures, keys, strict=True):
            older = {_number(entry) for _ in own for entry in next(others)}
            newer = {place for key in own for place in self._latest.get(key, ())[-_COMPARED:]}
            is_empty = bool((value == _NOTHING).all())
            kept.append(is_empty or not self._repeats(value, sorted(older), newer))
            if kept[-1] and not is_empty:
                self._keep(value, own)
        if len(self._signatures) * self._bands >= self._most:
            self._write()
        return kept

    def _repeats(self, value: Values, older: list[int], newer: set[int]) -> bool:
        found = [self._of_others[older], *(self._signatures[place] for place in newer)]
        alike: int = np.count_nonzero(np.vstack(found) == value, axis=1).max(initial=0)
        return alike / HASHES >= self._threshold

    def _keep(self, value: Values, keys: Sequence[bytes]) -> None:
        for key in keys:
            self._latest[key].append(len(self._signatures))
        self._signatures.append(value)

    def _write(self) -> None:
        before, count = len(self._of_others), len(self._of_others) + len(self._signatures)
        rest = memoryview(np.array(self._signatures).tobytes())
        while rest:
            rest = rest[self._file.write(rest) :]
        self._of_others = np.memmap(self._file, np.uint32, "r", shape=(count, HASHES))
        self._signatures.clear()
        self._others.add(key + _bytes(before + place) for key, places in self._latest.items() for place in places)
        self._latest.clear()


def _keys(value: Values, count: int) -> list[bytes]:
    """What the bands of a signature are found by; hashes that fill no band are left out."""
    rows = HASHES // count
    return [
        hashlib.blake2b(band.tobytes(), digest_size=_KEY, salt=index.to_bytes(2)).digest()
        for index, band in enumerate(value[: count * rows].reshape(count, rows))
    ]


def _bytes(number: int) -> bytes:
    return number.to_bytes(SIZE - _KEY)


def _number(entry: bytes) -> int:
    return int.from_bytes(entry[_KEY:])


def signature(text: str, ngram: int) -> Values:
    """What is compared of a text: the least hashes of its n-grams."""
    found = RMinHash(num_perm=HASHES, seed=SEED)
    texts = ngram_texts(text, ngram)
    while some := list(islice(texts, _AT_ONCE)):
        found.update(some)
    return np.array(found.digest(), np.uint32)


def signatures(texts: Sequence[str], ngram: int) -> Signatures:
    """(texts, HASHES): the `signature` of each."""
    return np.array([signature(text, ngram) for text in texts], np.uint32).reshape(-1, HASHES)


def bands(threshold: float) -> int:
    """The fewest bands of which, of the pairs of the threshold's similarity, no more than `_MISSED` share none: each of
    a band's hashes is equal with that probability (Leskovec, Rajaraman & Ullman 2014, section 3.4.2)."""
    return next(n for n in range(1, HASHES + 1) if (1 - threshold ** (HASHES // n)) ** n <= _MISSED)
