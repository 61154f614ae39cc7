"""Learning-rate schedules: the share of the peak rate as a function of the step, counted from 0."""

import math
from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["linear", "bert", "cosine", "constant", "wsd"]

DECAY_SHARE = 0.2
"""Of the steps, that in which `wsd` falls, where nothing else is said."""


def rate_share(name: ScheduleName, step: int, warmup: int, last: int, decay_share: float = DECAY_SHARE) -> float:
    """In [0, 1]: up a line from 0 to 1 in `warmup` steps, then as the schedule has it, of `last` steps in all.

    `linear` falls along a line from the end of the warm-up to 0 at the last step. `bert`, as google-research/bert,
    falls along 1 - step / last, so that the rate jumps down where the two meet. `cosine` falls along half a cosine,
    `constant` stays. `wsd` (warm-up, stable, decay) stays, and falls along a line over the last `decay_share` of the
    steps; until then nothing depends on `last`, and trainings of several lengths have that part in common (Hu et al.
    2024, "MiniCPM").
    """
    return step / warmup if step < warmup else _AFTER_WARMUP[name](step, warmup, last, decay_share)


def decay_begin(last: int, decay_share: float) -> int:
    """The step from which on `wsd` falls."""
    return last - round(last * decay_share)


def check_warmup_ratio(ratio: float, schedule: ScheduleName) -> None:
    """`ValueError` where the warm-up, of this share of the steps, would end behind the beginning of `wsd`'s decay."""
    if schedule == "wsd" and ratio > 1 - DECAY_SHARE:
        raise ValueError(
            f"warmup_ratio: found {ratio} with schedule wsd, expected that the warm-up ends before the decay of the "
            f"last {DECAY_SHARE:.0%} of the steps; lower it to {1 - DECAY_SHARE:g} at most"
        )


def above(floor: float, share: float) -> float:
    """`share` by a schedule that ends at the share `floor` of the peak, instead of 0."""
    return floor + (1 - floor) * share if floor else share


def _linear(step: int, warmup: int, last: int, _: float) -> float:
    return (last - step) / max(last - warmup, 1)


def _bert(step: int, _: int, last: int, __: float) -> float:
    return 1 - step / last


def _cosine(step: int, warmup: int, last: int, _: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(last - warmup, 1)))


def _constant(*_: float) -> float:
    return 1.0


def _wsd(step: int, _: int, last: int, decay_share: float) -> float:
    begin = decay_begin(last, decay_share)
    return 1.0 if step < begin else (last - step) / max(last - begin, 1)


_AFTER_WARMUP: dict[ScheduleName, Callable[[int, int, int, float], float]] = {
    "linear": _linear,
    "bert": _bert,
    "cosine": _cosine,
    "constant": _constant,
    "wsd": _wsd,
}
