"""Items that are chosen by their keys alone, however many there are and in whatever order they come."""

from hypothesis import given
from hypothesis import strategies as st

from bertcore import draws


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 6))
def test_the_items_of_the_smallest_keys_are_chosen_once_each(keys: list[int], most: int) -> None:
    expected = [str(key) for key in sorted(set(keys))[:most]]
    assert draws.smallest(((key, str(key)) for key in keys), most) == expected
