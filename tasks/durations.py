"""Durations as people write and read them: `2h` as seconds, minutes in words."""

import re

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_LONGEST = 365 * _SECONDS["d"]


def seconds_of(text: str) -> float:
    """`2h`, `90m`, `1.5d` as seconds; ValueError for anything else, and for more than a year."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)", text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0 < seconds <= _LONGEST:
        raise ValueError(f"found {text!r}, expected a time such as 30m, 2h or 1.5d, of 365d at most")
    return seconds


def duration(minutes: float) -> str:
    """Minutes, as a person reads them."""
    if minutes < 90:
        return f"{minutes:.2g} minutes"
    return f"{minutes / 60:.3g} hours" if minutes < 60 * 48 else f"{minutes / 60 / 24:,.0f} days"
