"""Durations as people write them."""

import pytest

from tasks.durations import seconds_of


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200), ("90m", 5400), ("1.5d", 129600), ("30 min", 1800)])
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "two hours", "-1h", "0h", "366d", "999999999d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^found .*, expected a time such as 30m, 2h or 1.5d, of 365d at most$"):
        seconds_of(text)
