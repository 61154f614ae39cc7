"""How well passages are found: nDCG and recall of rankings, and BM25, beside which any other method has to stand."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer

from bertcore.words import word


class BM25:
    """Okapi BM25 (Robertson & Zaragoza 2009, equation 3.15) over lower-cased words, with Lucene's idf, which is never
    negative: ln(1 + (N - n + 0.5) / (n + 0.5)) for a word in n of N passages."""

    def __init__(self, passages: Sequence[str], k1: float = 1.2, b: float = 0.75) -> None:
        """`k1` says how soon more of a word counts no more, `b` how much a long passage is held back."""
        self._vectorizer = CountVectorizer(token_pattern=word())
        # "a": it refuses to know no word at all, as where all passages are marks.
        self._vectorizer.fit([*passages, "a"])
        counts = csr_matrix(self._vectorizer.transform(passages), dtype=np.float64)
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        held_back = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-12))
        containing = np.bincount(counts.indices, minlength=counts.shape[1])
        idf = np.log1p((len(passages) - containing + 0.5) / (containing + 0.5))
        rows = np.repeat(np.arange(len(passages)), np.diff(counts.indptr))
        weights = counts.data * (k1 + 1) / (counts.data + held_back[rows]) * idf[counts.indices]
        self._weights = csr_matrix((weights, counts.indices, counts.indptr), shape=counts.shape)

    def scores(self, queries: Sequence[str]) -> NDArray[np.float64]:
        """(Q, N) of every passage for every query; a word that a query has twice counts twice."""
        asked = csr_matrix(self._vectorizer.transform(queries), dtype=np.float64)
        return np.asarray((asked @ self._weights.T).todense())


def ranking(scores: NDArray[np.floating], top: int) -> NDArray[np.int64]:
    """(Q, N) scores -> (Q, top) passages, the best first, of equals the first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :top]


def ndcg(ranked: NDArray[np.int64], relevant: Sequence[set[int]], top: int = 10) -> float:
    """The mean over queries of DCG over the best possible DCG, gains being 0 and 1 (Järvelin & Kekäläinen 2002)."""
    discounts = 1 / np.log2(np.arange(2, top + 2))
    found = []
    for row, right in zip(ranked[:, :top], relevant, strict=True):
        gains = np.asarray([passage in right for passage in row.tolist()], dtype=np.float64)
        found.append(float(gains @ discounts[: len(gains)]) / float(discounts[: min(len(right), top)].sum()))
    return float(np.mean(found))


def recall(ranked: NDArray[np.int64], relevant: Sequence[set[int]], top: int = 10) -> float:
    """The mean over queries of the share of their relevant passages that are among the first `top`."""
    shares = [len(right & set(row[:top].tolist())) / len(right) for row, right in zip(ranked, relevant, strict=True)]
    return float(np.mean(shares))
