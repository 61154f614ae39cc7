from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.examples.tag_schemes import detect, entities, iob2_labels, is_entity_tag, to_iob2, violations

# The same two entities of type A side by side, and one of type B, in every scheme.
IN_SCHEMES = {
    "iob1": "I-A I-A B-A O I-B I-B I-B",
    "iob2": "B-A I-A B-A O B-B I-B I-B",
    "bioes": "B-A E-A S-A O B-B I-B E-B",
}

BIOES = ["O", *(f"{prefix}-{type_}" for prefix, type_ in product("BIES", "AB"))]


@pytest.mark.parametrize("scheme", IN_SCHEMES)
def test_every_scheme_becomes_the_same_iob2(scheme: str) -> None:
    tags = IN_SCHEMES[scheme].split()
    assert to_iob2(tags) == IN_SCHEMES["iob2"].split()
    assert violations(tags, scheme) == [] and detect([["O"], tags]) == scheme


@given(st.lists(st.sampled_from(BIOES), max_size=8))
def test_iob2_keeps_the_entities_and_is_sound(tags: list[str]) -> None:
    converted = to_iob2(tags)
    assert entities(converted) == entities(tags)
    assert violations(converted, "iob2") == [] and to_iob2(converted) == converted
    assert set(converted) <= set(iob2_labels(["A", "B"]))


@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(1, 3), st.integers(0, 1)), max_size=4))
def test_sound_bioes_breaks_nothing(parts: list[tuple[str, int, int]]) -> None:
    tags: list[str] = []
    for type_, length, gap in parts:
        inside = [f"I-{type_}"] * (length - 2)
        tags += [f"S-{type_}"] if length == 1 else [f"B-{type_}", *inside, f"E-{type_}"]
        tags += ["O"] * gap
    assert violations(tags, "bioes") == [] and len(entities(tags)) == len(parts)


@pytest.mark.parametrize(
    ("scheme", "tags", "positions"),
    [
        ("iob2", "O I-A B-A I-B", [1, 3]),
        ("iob2", "S-A B_A B", [0, 1]),
        ("iob1", "B-A I-A B-A B-B", [0, 3]),
        ("bioes", "B-A O", [1]),
        ("bioes", "B-A I-A", [1]),
        ("bioes", "I-A E-A S-A E-A", [0, 3]),
        ("bioes", "B-A E-B", [1]),
    ],
)
def test_tags_that_break_a_scheme(scheme: str, tags: str, positions: list[int]) -> None:
    assert [position for position, _ in violations(tags.split(), scheme)] == positions


def test_the_scheme_that_is_broken_least_is_found() -> None:
    assert detect([["B-A", "I-A"]] * 3 + [["O", "I-A"]]) == "iob2"
    assert detect([["B-A", "I-A"]] * 3 + [["O", "S-A"]]) == "iob2", "one tag of another scheme breaks but itself"
    assert detect([["B-A", "E-A"]] * 3 + [["B-A", "O"]]) == "bioes"
    assert detect([["I-A", "I-A"]] * 3 + [["O", "B-A"]]) == "iob1"
    assert detect([["B", "I", "O"]]) == "iob2" and to_iob2(["I", "I", "O", "B"]) == ["B", "I", "O", "B"]
    assert iob2_labels([""]) == ["O", "B", "I"]
    assert detect([["NN", "VB", "O"], ["I"]]) is None and detect([]) is None and detect([["O"]]) is None


@pytest.mark.parametrize(("tag", "is_one"), [("O", True), ("B", True), ("S-x-y", True), ("B_A", False), ("NN", False)])
def test_tags_that_mark_entities(tag: str, is_one: bool) -> None:
    assert is_entity_tag(tag) == is_one
