"""Held-out pairs as a search."""

import numpy as np
import pytest

from bertcore.embedding.pairs import Pair
from bertcore.embedding.scoring import Search
from bertcore.model.modernbert import ModernBertModel
from tests.samples import sentences, tokenizer


def test_an_anchor_finds_all_of_its_positives() -> None:
    search = Search([Pair("a", "x"), Pair("b", "y"), Pair("a", "z"), Pair("c", "x")])
    assert (search.queries, search.passages) == (["a", "b", "c"], ["x", "y", "z"])
    found = search.score(np.asarray([[3.0, 1.0, 2.0], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]))
    ndcg_of_second, ndcg_of_third = 1 / np.log2(3), 1 / np.log2(4)
    assert found["ndcg_at_10"] == pytest.approx((1 + ndcg_of_second + ndcg_of_third) / 3)
    assert found["recall_at_1"] == pytest.approx((0.5 + 0 + 0) / 3) and found["recall_at_10"] == 1


def test_a_query_does_not_find_its_own_text_unless_that_is_asked_for() -> None:
    """Three sentences that follow each other: the second one is a query and a passage."""
    search = Search([Pair("a", "b"), Pair("b", "c")])
    scores = np.asarray([[3.0, 1.0], [3.0, 2.0]])
    assert search.score(scores) == {"ndcg_at_10": 1.0, "recall_at_1": 1.0, "recall_at_10": 1.0}
    assert scores[1, 0] == 3.0
    assert Search([Pair("a", "b"), Pair("b", "c"), Pair("b", "b")]).score(scores)["recall_at_1"] == 0.75


def test_a_text_finds_itself_by_words_and_by_vectors(model: ModernBertModel) -> None:
    texts = list(dict.fromkeys(sentences(40, seed=9)))
    search = Search([Pair(text, text) for text in texts])
    found = search.vectors(model.eval(), tokenizer(), 32, [8, 16])
    assert list(found) == [32, 16, 8] and all(scores["recall_at_1"] == 1 for scores in found.values())
    assert search.bm25()["recall_at_1"] > 0.9
