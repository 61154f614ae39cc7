import math
import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from bertcore.errors import InputError
from bertcore.evaluation.classification import METRICS, by_label, compute

label_pairs = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=50)
binary_pairs = st.lists(st.tuples(st.sampled_from("01"), st.sampled_from("01")), min_size=1, max_size=50)
scores = st.one_of(st.integers(0, 5).map(float), st.floats(-1e6, 1e6, allow_subnormal=False))
score_pairs = st.lists(st.tuples(scores, scores), min_size=2, max_size=50)


@given(label_pairs)
def test_class_metrics_equal_scikit_learn_to_the_last_digit(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = map(list, zip(*pairs, strict=True))
    assert METRICS["accuracy"](gold, predicted) == sklearn.metrics.accuracy_score(gold, predicted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of a single class
        assert METRICS["mcc"](gold, predicted) == sklearn.metrics.matthews_corrcoef(gold, predicted)
        assert METRICS["macro_f1"](gold, predicted) == sklearn.metrics.f1_score(gold, predicted, average="macro")


@given(binary_pairs)
def test_f1_equals_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = map(list, zip(*pairs, strict=True))
    expected = sklearn.metrics.f1_score(gold, predicted, labels=["0", "1"], average=None, zero_division=0)
    assert METRICS["f1"](gold, predicted) == expected[1]
    assert METRICS["f1"]([int(label) for label in gold], [int(label) for label in predicted]) == expected[1]


@given(label_pairs)
def test_scores_by_label_equal_scikit_learn_to_the_last_digit(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = map(list, zip(*pairs, strict=True))
    names = sorted({*gold, *predicted})
    found = by_label(gold, predicted)
    expected = sklearn.metrics.precision_recall_fscore_support(gold, predicted, labels=names, zero_division=0)
    table = np.array([[pairs.count((a, b)) for b in names] for a in names])
    assert list(found) == names
    for place, each in enumerate(found.values()):
        assert [each[name] for name in ("precision", "recall", "f1", "gold")] == [row[place] for row in expected]
        assert each["predicted"] == table[:, place].sum()
        table[place, place] = 0
        assert each.get("confused", 0) == table[place].max()
        assert ("confused_with" in each) == bool(table[place].any())
        assert "confused_with" not in each or table[place, names.index(each["confused_with"])] == each["confused"]
    assert np.mean([each["f1"] for each in found.values()]) == METRICS["macro_f1"](gold, predicted)


def test_a_label_and_what_it_is_taken_for() -> None:
    found = by_label(["a", "a", "a", "a", "b"], ["a", "b", "b", "c", "b"])
    assert found["a"] == {
        "gold": 4, "predicted": 1, "precision": 1.0, "recall": 0.25, "f1": 0.4, "confused_with": "b", "confused": 2
    }  # fmt: skip
    assert found["b"] == {"gold": 1, "predicted": 3, "precision": 1 / 3, "recall": 1.0, "f1": 0.5}
    assert found["c"] == {"gold": 0, "predicted": 1, "precision": 0.0, "recall": 0.0, "f1": 0.0}


@given(score_pairs)
def test_correlations_equal_scipy_to_the_last_digit(pairs: list[tuple[float, float]]) -> None:
    gold, predicted = map(list, zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy warns of constant and nearly constant input
        for name, reference in (("pearson", scipy.stats.pearsonr), ("spearmanr", scipy.stats.spearmanr)):
            expected = float(reference(np.asarray(gold), np.asarray(predicted))[0])
            assert METRICS[name](gold, predicted) == (0.0 if math.isnan(expected) else expected)


@pytest.mark.parametrize("name", ["mcc", "pearson", "spearmanr"])
def test_constant_predictions_score_zero(name: str) -> None:
    assert METRICS[name]([0, 1, 1], [1, 1, 1]) == METRICS[name]([1, 1, 1], [0, 1, 1]) == 0.0


def test_f1_without_any_one_is_zero() -> None:
    assert METRICS["f1"](["0", "0"], ["0", "0"]) == 0.0


def test_spearman_takes_mean_ranks_of_ties() -> None:
    # ranks 1.5 1.5 3 4 and 1 2 3 4: by hand sum of products / norms
    assert METRICS["spearmanr"]([1, 1, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_compute_names_the_metrics() -> None:
    assert compute(["accuracy", "f1"], ["1", "0"], ["1", "1"]) == {"accuracy": 0.5, "f1": 2 / 3}


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="found 1 for 2 gold labels"):
        METRICS["accuracy"](["a", "b"], ["a"])
    with pytest.raises(InputError, match="found 0 for 0"):
        METRICS["mcc"]([], [])
    with pytest.raises(InputError, match="'yes', expected 0 or 1; use macro_f1"):
        METRICS["f1"](["yes"], ["no"])
