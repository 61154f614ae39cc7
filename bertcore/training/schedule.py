"""Learning-rate schedules: the factor on the peak rate as a function of the step, counted from 0."""

import math
from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["linear", "bert", "cosine", "constant", "wsd"]

DECAY_SHARE = 0.2
"""Of the steps, that in which `wsd` falls, where nothing else is said."""

Schedule = Callable[[int, int, int], float]
"""(step, warmup_steps, max_steps) -> factor in [0, 1]"""


def linear(step: int, warmup_steps: int, max_steps: int) -> float:
    """Up from 0 to 1 in the warm-up, then down to 0 at the last step: the line runs from the end of the warm-up."""
    if step < warmup_steps:
        return step / warmup_steps
    return (max_steps - step) / max(max_steps - warmup_steps, 1)


def bert(step: int, warmup_steps: int, max_steps: int) -> float:
    """As google-research/bert: after the warm-up, the line 1 - step / max_steps, so the rate jumps down where they
    meet."""
    return step / warmup_steps if step < warmup_steps else 1 - step / max_steps


def cosine(step: int, warmup_steps: int, max_steps: int) -> float:
    """Warm-up, then half a cosine down to 0."""
    if step < warmup_steps:
        return step / warmup_steps
    return 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / max(max_steps - warmup_steps, 1)))


def constant(step: int, warmup_steps: int, max_steps: int) -> float:
    """Warm-up, then 1."""
    return step / warmup_steps if step < warmup_steps else 1.0


def decay_begin(max_steps: int, decay_share: float) -> int:
    """The step from which on `wsd` falls."""
    return max_steps - round(max_steps * decay_share)


def wsd(step: int, warmup_steps: int, max_steps: int, decay_share: float = DECAY_SHARE) -> float:
    """Warm-up, stable, decay: 1 after the warm-up, then a line down to 0 over the last `decay_share` of the steps.

    Until the decay begins, nothing depends on `max_steps`: trainings of several lengths have that part in common (Hu et
    al. 2024, "MiniCPM").
    """
    if step < warmup_steps:
        return step / warmup_steps
    begin = decay_begin(max_steps, decay_share)
    return 1.0 if step < begin else (max_steps - step) / max(max_steps - begin, 1)


def check_warmup_ratio(ratio: float, schedule: ScheduleName) -> None:
    """`ValueError` where the warm-up, of this share of the steps, would end behind the beginning of `wsd`'s decay."""
    if schedule == "wsd" and ratio > 1 - DECAY_SHARE:
        raise ValueError(
            f"warmup_ratio: found {ratio} with schedule wsd, expected that the warm-up ends before the decay of the "
            f"last {DECAY_SHARE:.0%} of the steps; lower it to {1 - DECAY_SHARE:g} at most"
        )


def above(floor: float, factor: float) -> float:
    """`factor` of a schedule that ends at the share `floor` of the peak, instead of 0."""
    return floor + (1 - floor) * factor if floor else factor


SCHEDULES: dict[ScheduleName, Schedule] = {
    "linear": linear,
    "bert": bert,
    "cosine": cosine,
    "constant": constant,
    "wsd": wsd,
}
