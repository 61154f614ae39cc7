"""Which examples belong together."""

import random
from collections import defaultdict

import pyarrow as pa
import pytest

from bertcore.examples.schema import CLASSIFICATION
from bertcore.examples.sharing import groups

Pairs = list[tuple[str, str | None]]


def table(pairs: Pairs) -> pa.Table:
    rows = [{"id": str(place), "text_a": a, "text_b": b, "label": "yes"} for place, (a, b) in enumerate(pairs)]
    return pa.Table.from_pylist(rows, CLASSIFICATION)


def sets(pairs: Pairs) -> set[frozenset[int]]:
    """The groups as sets of rows."""
    found = defaultdict(set)
    for row, name in enumerate(groups(table(pairs))):
        found[name].add(row)
    return set(map(frozenset, found.values()))


def spread_out(pairs: Pairs) -> set[frozenset[int]]:
    """The same, by taking in row after row until nothing changes."""
    found = [({row}, set(pair)) for row, pair in enumerate(pairs)]
    merged = True
    while merged:
        merged = False
        for place, (rows, texts) in enumerate(found):
            for other in found[place + 1 :]:
                if texts & other[1]:
                    rows |= other[0]
                    texts |= other[1]
                    found.remove(other)
                    merged = True
                    break
    return {frozenset(rows) for rows, _ in found}


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_what_hangs_together_through_texts(seed: int) -> None:
    draw = random.Random(seed)
    pairs: Pairs = [(f"t{draw.randrange(70)}", f"t{draw.randrange(70)}") for _ in range(25)]
    expected = spread_out(pairs)
    assert max(map(len, expected)) <= len(pairs) / 2 and len(expected) < len(pairs)
    assert sets(pairs) == expected


def test_a_premise_keeps_its_hypotheses_and_a_pair_the_one_turned_round() -> None:
    pairs: Pairs = [("p", "h1"), ("q", "h2"), ("p", "h3"), ("h2", "q"), ("alone", "h4"), ("h1", "r")]
    assert sets(pairs) == {frozenset({0, 2, 5}), frozenset({1, 3}), frozenset({4})}


def test_single_texts_are_their_own_groups() -> None:
    assert groups(table([("a", None), ("b", None), ("a", None)])) == ["a", "b", "a"]


def test_a_group_has_the_same_name_in_any_order() -> None:
    pairs: Pairs = [("m", "z"), ("b", "z"), ("k", "m"), ("x", "y"), ("v", "w"), ("u", "s")]
    names = dict(zip(pairs, groups(table(pairs)), strict=True))
    assert names == dict(zip(pairs[::-1], groups(table(pairs[::-1])), strict=True))


def test_where_a_few_answers_stand_beside_all_questions_the_first_text_counts() -> None:
    pairs: Pairs = [(f"question {place // 2}", ("yes", "no")[place % 2]) for place in range(20)]
    assert len(sets(pairs)) == 10


def test_blank_second_texts_connect_nothing() -> None:
    pairs: Pairs = [(f"title {place}", ("", " ", None, f"body {place}")[place % 4]) for place in range(40)]
    assert len(sets(pairs)) == 40


@pytest.mark.parametrize("target_first", [True, False])
def test_the_few_targets_of_many_opinions_connect_nothing(target_first: bool) -> None:
    pairs = [(f"opinion {place // 2}", f"target {place % 5}") for place in range(1000)]
    found = sets([(b, a) for a, b in pairs] if target_first else list(pairs))
    assert found == {frozenset({2 * place, 2 * place + 1}) for place in range(500)}


def test_a_frequent_text_that_stands_alone_is_a_group() -> None:
    names = groups(table([("ok", None)] * 30 + [(f"text {place}", None) for place in range(70)]))
    assert names[:30] == ["ok"] * 30 and len(set(names)) == 71
