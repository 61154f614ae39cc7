"""How well the vectors of an encoder find what belongs to a text, among all that could: held-out pairs as a search."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.embedding.pairs import Pair
from bertcore.embedding.vectors import cutting, encode, normalized, vectors_of
from bertcore.evaluation.retrieval import BM25, ndcg, ranking, recall
from bertcore.model.encoder import Encoder

TOP = 10


class Search:
    """Each anchor of some pairs as a query, whose positives are to be found among the positives of all pairs, but for
    its own text: as another pair's positive it would stand before them all, a wrong answer that nobody asks for."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.queries = list(dict.fromkeys(pair.anchor for pair in pairs))
        self.passages = list(dict.fromkeys(pair.positive for pair in pairs))
        query, passage = ({text: place for place, text in enumerate(of)} for of in (self.queries, self.passages))
        self._relevant: list[set[int]] = [set() for _ in self.queries]
        for pair in pairs:
            self._relevant[query[pair.anchor]].add(passage[pair.positive])
        own = [(row, passage[text]) for text, row in query.items() if text in passage]
        self._own = [(row, place) for row, place in own if place not in self._relevant[row]]

    def score(self, scores: NDArray[np.floating]) -> dict[str, float]:
        """nDCG@10, recall@1 and recall@10 of (queries, passages) scores, the higher the better."""
        scores = scores.astype(np.float64)
        for own in self._own:
            scores[own] = -np.inf
        ranked = ranking(scores, TOP)
        return {
            f"ndcg_at_{TOP}": ndcg(ranked, self._relevant, TOP),
            "recall_at_1": recall(ranked, self._relevant, 1),
            f"recall_at_{TOP}": recall(ranked, self._relevant, TOP),
        }

    def bm25(self) -> dict[str, float]:
        """The scores of `BM25`, which knows words alone."""
        return self.score(BM25(self.passages).scores(self.queries))

    def vectors(
        self, model: Encoder, tokenizer: Tokenizer, sequence_length: int, dimensions: Sequence[int] = ()
    ) -> dict[int, dict[str, float]]:
        """Width -> the scores of the cosines of the mean of the states; the whole width first, then `dimensions`."""
        cut = cutting(tokenizer, sequence_length)
        queries, passages = (vectors_of(model, encode(cut, texts)) for texts in (self.queries, self.passages))
        widths = (queries.shape[1], *sorted(dimensions, reverse=True))
        return {
            width: self.score(normalized(queries[:, :width]) @ normalized(passages[:, :width]).T) for width in widths
        }
