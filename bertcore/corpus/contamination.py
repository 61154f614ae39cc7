"""Evaluation texts that occur in the corpus: long n-grams of words, compared by hash.

Case, punctuation, layout and the encoding of accents make no difference (see `ngrams`). Two texts that share 13 words
in a row have them from one another or from a common source (Brown et al. 2020, appendix C).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertcore import workers
from bertcore.config import within
from bertcore.corpus.documents import RowGroup, training_parts
from bertcore.corpus.ngrams import ngram_hashes
from bertcore.progress import track

NGRAM = 13


@dataclass(frozen=True, kw_only=True)
class ContaminationConfig:
    """Section `corpus.contamination` of params.yaml."""

    texts: list[str] = field(default_factory=list)
    """Files of evaluation texts (`.tsv`, `.csv`, `.json`, `.jsonl`, `.parquet`, `.txt`, in which a blank line ends a
    text, and `.conll`, whose first column are the words, or the second one where the first numbers them; `.gz`,
    `.zst`); documents that share an n-gram with any text in them are dropped."""
    ngram: int = NGRAM
    """Words of an n-gram; in scripts without blanks between words, two characters count as a word."""

    def __post_init__(self) -> None:
        within(self, "ngram", "at least 5 words; fewer are shared by chance", least=5)
        if remote := [text for text in self.texts if "://" in text]:
            raise ValueError(f"texts: found {remote[0]}, expected a local file; download it and name the file")


@dataclass(frozen=True)
class _Part:
    """Some blocks of the training text, with absolute paths, and all evaluation texts."""

    texts: Sequence[str]
    groups: Sequence[RowGroup]


def find_in_corpus(texts: Sequence[str], corpus: Path, count: int | None = None) -> NDArray[np.bool_]:
    """(2, texts) which of `texts` have an n-gram at all, and which share one with the training text. `count`: worker
    processes, see `workers.run`."""
    parts = [_Part(texts, groups) for groups in training_parts(corpus)]
    return reduce(np.logical_or, track(workers.run(_find, parts, count), "contamination", len(parts)))


def _find(part: _Part) -> NDArray[np.bool_]:
    ngrams = EvaluationNgrams(part.texts)
    for group in part.groups:
        ngrams.meet([" ".join(document) for document in group.read().to_pylist()])
    return np.stack([ngrams.long_enough, ngrams.met])


class EvaluationNgrams:
    """The n-grams of evaluation texts, and which of them have been met elsewhere."""

    def __init__(self, texts: Sequence[str], ngram: int = NGRAM):
        self._ngram = ngram
        hashes, self._owner = ngram_hashes(texts, ngram)
        self._known, self._which = np.unique(hashes, return_inverse=True)
        self._met = np.zeros(len(self._known), bool)
        self._texts = len(texts)

    def meet(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Remember which n-grams occur in `texts`; which of `texts` have any."""
        hashes, owner = ngram_hashes(texts, self._ngram)
        shared = np.zeros(len(texts), bool)
        if len(self._known):
            place = np.minimum(np.searchsorted(self._known, hashes), len(self._known) - 1)
            same = self._known[place] == hashes
            self._met[place[same]] = True
            shared[owner[same]] = True
        return shared

    @property
    def long_enough(self) -> NDArray[np.bool_]:
        """Which evaluation texts have an n-gram at all."""
        return np.bincount(self._owner, minlength=self._texts).astype(bool)

    @property
    def met(self) -> NDArray[np.bool_]:
        """Which evaluation texts have an n-gram that was met."""
        return np.bincount(self._owner[self._met[self._which]], minlength=self._texts).astype(bool)
