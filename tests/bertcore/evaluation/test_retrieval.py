"""Metrics and BM25 against numbers that can be computed by hand."""

import math

import numpy as np
import pytest

from bertcore.evaluation.retrieval import BM25, ndcg, ranking, recall


def test_ndcg_and_recall_of_rankings_by_hand() -> None:
    ranked = np.asarray([[0, 1, 2], [2, 1, 0], [1, 2, 0]])
    relevant = [{0}, {0, 1}, {7}]
    second = (1 / math.log2(3) + 1 / math.log2(4)) / (1 + 1 / math.log2(3))
    assert ndcg(ranked, relevant, 3) == pytest.approx((1 + second + 0) / 3)
    assert ndcg(ranked, relevant, 2) == pytest.approx((1 + (1 / math.log2(3)) / (1 + 1 / math.log2(3)) + 0) / 3)
    assert recall(ranked, relevant, 3) == pytest.approx((1 + 1 + 0) / 3)
    assert recall(ranked, relevant, 2) == pytest.approx((1 + 0.5 + 0) / 3)


def test_a_best_possible_ranking_has_one_whatever_the_number_of_relevant_passages() -> None:
    relevant = [set(range(count)) for count in (1, 5, 20)]
    assert ndcg(np.tile(np.arange(30), (3, 1)), relevant) == 1.0


def test_bm25_of_passages_without_words() -> None:
    assert BM25(["...", "?"]).scores(["a file", "?"]).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_bm25_of_a_script_without_blanks() -> None:
    (found,) = BM25(["北京是中国的首都", "上海是港口"]).scores(["中国的首都"])
    assert found[0] > found[1] == 0


def test_bm25_by_hand() -> None:
    """Three passages of 4, 2 and 3 words; the mean is 3."""
    found = BM25(["open a file file", "a list", "File of bytes"], k1=1.5, b=0.6).scores(["file", "a file file", "none"])
    one = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))  # `file` and `a` are in two of three

    def weight(count: int, length: int) -> float:
        return count * 2.5 / (count + 1.5 * (1 - 0.6 + 0.6 * length / 3))

    expected = [one * weight(2, 4), 0.0, one * weight(1, 3)]
    assert found[0] == pytest.approx(expected)
    assert found[1] == pytest.approx([2 * expected[0] + one * weight(1, 4), one * weight(1, 2), 2 * expected[2]])
    assert found[2] == pytest.approx([0, 0, 0])
    assert ranking(found, 2).tolist() == [[0, 2], [0, 2], [0, 1]]
