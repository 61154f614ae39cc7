"""Which runs a sweep makes of its parameters."""

from typing import Any

import pytest

from flows.points import at_least_one, points


def test_a_grid_is_every_combination_with_every_seed() -> None:
    found = points({"pretrain.learning_rate": [0.1, 0.2], "pretrain.batch_size": [8]}, [1, 2], None, 0)
    assert [tuple(point.values()) for point in found] == [(0.1, 8, 1), (0.1, 8, 2), (0.2, 8, 1), (0.2, 8, 2)]
    assert list(found[0]) == ["pretrain.learning_rate", "pretrain.batch_size", "pretrain.seed"]
    assert points({}, [3, 4], None, 0) == [{"pretrain.seed": 3}, {"pretrain.seed": 4}]


def test_draws_are_the_same_for_a_seed_and_within_their_range() -> None:
    space = {"a": {"min": 1e-5, "max": 1e-2, "log": True}, "b": {"min": 2, "max": 4}, "c": ["x", "y"]}
    first = points(space, [1, 2], 200, 7)
    assert first == points(space, [1, 2], 200, 7) != points(space, [1, 2], 200, 8)
    assert len(first) == 400 and first[0].keys() == {"a", "b", "c", "pretrain.seed"}
    assert {point["b"] for point in first} == {2, 3, 4} and {point["c"] for point in first} == {"x", "y"}
    assert all(1e-5 <= point["a"] <= 1e-2 for point in first)
    below = sum(point["a"] < 10**-3.5 for point in first) / len(first)
    assert 0.3 < below < 0.7, "even in the logarithm"


def test_whole_numbers_stay_whole_also_in_the_logarithm() -> None:
    found = [point["a"] for point in points({"a": {"min": 8, "max": 64, "log": True}}, None, 40, 1)]
    assert all(isinstance(each, int) and 8 <= each <= 64 for each in found) and len(set(found)) > 20


def test_every_run_is_another_one() -> None:
    assert points({"a": [1, 2]}, [3, 3], 10, 0) == [{"a": 2, "pretrain.seed": 3}, {"a": 1, "pretrain.seed": 3}]
    assert points({"a": [1, 1, 2]}, None, None, 0) == [{"a": 1}, {"a": 2}]
    assert len(points({"a": [1, 2, 3], "b": [1, 2, 3]}, None, 8, 0)) == 8


@pytest.mark.parametrize(
    ("params", "draws", "said"),
    [
        ({}, None, "parameter params: found nothing"),
        ({"a": 1}, None, "parameter params: a: found 1, expected a list of values; correct it"),
        ({"a": {"min": 1, "max": 2}}, None, "expected a list of values; correct it"),
        ({"a": {"min": 0, "max": 2, "log": True}}, 3, 'above 0 with "log": true; correct it'),
        ({"a": {"min": 0, "max": -1, "log": True}}, 3, 'a below b, above 0 with "log": true; correct it'),
        ({"a": {"min": 3, "max": 1}}, 3, "parameter params: a: found {'min': 3, 'max': 1}, expected a list of values"),
        ({"a": {"min": 1, "max": -1, "log": True}}, 3, "a below b"),
        ({"a": [1]}, 0, "parameter draws: found 0, expected 1 or more, or null for every combination"),
        ({"a": [1]}, -3, "parameter draws: found -3, expected 1 or more"),
        ({"a": {"min": 1}}, 3, "parameter params: a: found {'min': 1}, expected a list of values or"),
        ({"a": list(range(40)), "b": list(range(40))}, None, "found 1,600 combinations, expected at most 1,000"),
        ({name: list(range(900)) for name in "abcdef"}, None, "found 531,441,000,000,000,000 combinations"),
        ({"a": [1, 2]}, 10**15, "found 1,000,000,000,000,000 combinations"),
    ],
)
def test_what_cannot_be_combined_is_one_line(params: dict[str, Any], draws: int | None, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        points(params, None, draws, 0)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_seeds_are_given_once() -> None:
    with pytest.raises(
        ValueError, match=r"parameter seeds: found \[1, 2\] beside params: pretrain.seed, expected one of"
    ):
        points({"pretrain.seed": [5, 6]}, [1, 2], None, 0)
    assert points({"pretrain.seed": [5, 6]}, None, None, 0) == [{"pretrain.seed": 5}, {"pretrain.seed": 6}]


def test_numbers_of_runs_are_one_at_least() -> None:
    assert (at_least_one("at_once", None, "for all"), at_least_one("at_once", 3, "for all")) == (None, 3)
    for number in (0, -1):
        with pytest.raises(ValueError, match=f"parameter at_once: found {number}, expected 1 or more, or null for all"):
            at_least_one("at_once", number, "for all")
