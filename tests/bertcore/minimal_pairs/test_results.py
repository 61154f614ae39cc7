"""Accuracies and their errors against closed forms, and a table."""

import math

import numpy as np
import pytest
from scipy import stats

from bertcore.minimal_pairs.pairs import Pair
from bertcore.minimal_pairs.results import Mean, as_table, mean, outcomes, overall, pooled, summarize


def pairs_of(**numbers: int) -> list[Pair]:
    return [Pair(f"good {n}", f"bad {n}", name, name[0]) for name, number in numbers.items() for n in range(number)]


def test_a_tie_counts_half() -> None:
    scores = np.array([[-1.0, -2.0], [-2.0, -1.0], [-3.0, -3.0], [0.0, -1e-9]])
    assert outcomes(scores).tolist() == [1.0, 0.0, 0.5, 1.0]


def test_the_error_of_a_share_is_the_binomial_one() -> None:
    values = np.array([1.0] * 30 + [0.0] * 70)
    found = mean(values)
    assert found.value == pytest.approx(0.3)
    assert found.standard_error == pytest.approx(math.sqrt(0.3 * 0.7 / 99))
    for n in (1, 4, 1000):
        alike = mean(np.ones(n))
        assert alike.value == 1 and alike.standard_error == pytest.approx(stats.beta(n + 1, 1).std())


def test_independent_means_are_pooled_by_their_weights() -> None:
    found = pooled([Mean(1.0, 0.3), Mean(0.0, 0.4)], [1.0, 1.0])
    assert found.value == pytest.approx(0.5) and found.standard_error == pytest.approx(0.25)
    assert pooled([Mean(1.0, 0.3), Mean(0.0, 0.4)], [3.0, 1.0]).value == pytest.approx(0.75)


def test_all_pairs_and_paradigms_weigh_differently() -> None:
    pairs = pairs_of(a1=90, b1=10)
    values = np.array([1.0, 0.0] * 45 + [1.0] * 10)
    plain, macro = overall(pairs, values)
    assert plain.value == pytest.approx(0.55) and macro.value == pytest.approx(0.75)
    spread, alike = math.sqrt(0.25 / 89), stats.beta(11, 1).std()
    assert plain.standard_error == pytest.approx(math.hypot(0.9 * spread, 0.1 * alike))
    assert macro.standard_error == pytest.approx(0.5 * math.hypot(spread, alike))


def test_paradigms_of_a_single_pair_are_one_stratum() -> None:
    values = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    of_sample = mean(values)
    for found in overall(pairs_of(**{f"{letter}1": 1 for letter in "abcdefg"}), values):
        assert found.value == pytest.approx(4 / 7) and found.standard_error == pytest.approx(of_sample.standard_error)
    plain, macro = overall(pairs_of(a1=4, b1=1, c1=1), np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]))
    assert plain.value == pytest.approx(0.5) and macro.value == pytest.approx(0.5)
    assert macro.standard_error == pytest.approx(math.hypot(math.sqrt(1 / 3 / 4) / 3, 2 / 3 * math.sqrt(0.5 / 2)))


def test_systems_are_compared_pair_by_pair() -> None:
    pairs = pairs_of(a1=2, a2=2, b1=4)
    model = np.array([[1.0, 0.0]] * 6 + [[0.0, 1.0]] * 2)
    bigram = np.array([[1.0, 0.0]] * 2 + [[0.0, 0.0]] * 4 + [[0.0, 1.0]] * 2)
    found = summarize(pairs, {"model": model, "bigram": bigram})
    assert found["pairs"] == 8
    assert found["accuracy"] == found["systems"]["model"]["accuracy"] == 0.75
    assert found["systems"]["bigram"]["ties"] == 4
    assert found["systems"]["model"]["macro_accuracy"] == pytest.approx(2.5 / 3)
    assert found["gain"].keys() == {"bigram"} and found["gain"]["bigram"]["accuracy"] == pytest.approx(0.25)
    # In b1 the differences are 0.5, 0.5, 0, 0; in the others both are alike.
    alike = stats.beta(3, 1).std()
    expected = math.hypot(0.5 * math.sqrt((0.25 / 3) / 4), 0.25 * alike, 0.25 * alike)
    assert found["gain"]["bigram"]["standard_error"] == pytest.approx(expected)
    assert list(found["phenomena"]) == ["a", "b"] and list(found["paradigms"]) == ["a1", "a2", "b1"]
    error = pytest.approx(0.5 * math.hypot(alike, alike))
    assert found["phenomena"]["a"] == {"pairs": 4, "standard_error": error, "model": 1.0, "bigram": 0.75}
    assert found["paradigms"]["b1"]["model"] == 0.5
    table = as_table(found).splitlines()
    assert table[0].split() == ["pairs", "model", "bigram", "error"]
    assert table[1].split() == ["a", "4", "100.0", "75.0", "13.69"]
    assert table[-2].split() == ["all", "pairs", "8", "75.0", "50.0", "15.98"]
    assert table[-1].split()[-3:] == ["83.3", "58.3", "13.26"]
