"""Learning-rate schedules: the factor on the peak rate as a function of the step, counted from 0."""

import math
from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["linear", "bert", "cosine", "constant"]

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


SCHEDULES: dict[ScheduleName, Schedule] = {"linear": linear, "bert": bert, "cosine": cosine, "constant": constant}
