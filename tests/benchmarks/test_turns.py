"""Variants take turns; one that fails ends the measurement instead of being waited for."""

import pytest

from benchmarks.turns import Work, take_turns


def counting() -> Work:
    return lambda: 7


def broken() -> Work:
    raise ValueError("a variant that cannot be built")


def breaking() -> Work:
    built = iter([7, 7])
    return lambda: next(built)


def test_every_variant_has_a_rate_for_each_turn() -> None:
    found = take_turns({"a": counting, "b": counting}, turns=3, units=2)
    assert [len(turns.rates) for turns in found.values()] == [3, 3]
    assert all(turns.median > 0 and turns.peak_gib > 0 for turns in found.values())


@pytest.mark.parametrize("variant", [broken, breaking])
def test_a_variant_that_fails_ends_the_turns(variant: object) -> None:
    with pytest.raises(EOFError):
        take_turns({"a": counting, "b": variant}, turns=2, units=1)  # type: ignore[dict-item]
