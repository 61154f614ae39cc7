"""Processes that could not train together."""

import pytest

from bertcore.training.agreement import UnlikeError, require_agreement, require_same_step
from bertcore.training.control import Control


class Two(Control):
    """Two processes, the second of which differs in `other`."""

    def __init__(self, **other: str) -> None:
        super().__init__(1)
        self.other = other

    def gather(self, value):  # type: ignore[no-untyped-def]
        _, facts = value
        return [("first", facts), ("second", facts | self.other)]


def test_those_that_are_alike_go_on() -> None:
    require_agreement(Control(1), "1234")
    require_agreement(Two(), "1234")


def test_another_version_is_named_with_its_machine() -> None:
    with pytest.raises(UnlikeError, match=r"process 1 \(second\): found torch 0\.4, expected .* \(first\); install"):
        require_agreement(Two(torch="0.4"), "1234")


def test_another_training_is_refused() -> None:
    with pytest.raises(UnlikeError, match="found training 99, expected 1234, .*; give every machine the same commit"):
        require_agreement(Two(training="99"), "1234")


class Steps(Control):
    """Two processes, of which the second goes on from `step`."""

    def __init__(self, step: int | None) -> None:
        super().__init__(1)
        self.step = step

    def gather(self, value):  # type: ignore[no-untyped-def]
        return [value, ("second", self.step)]


@pytest.mark.parametrize("step", [None, 40])
def test_all_go_on_from_one_step_or_begin(step: int | None) -> None:
    require_same_step(Control(1), step)
    require_same_step(Steps(step), step)


def test_a_process_that_goes_on_from_another_step_is_refused() -> None:
    with pytest.raises(UnlikeError, match=r"process 1 \(second\): found the checkpoint of step 20, .* of step 40"):
        require_same_step(Steps(20), 40)
    with pytest.raises(UnlikeError, match="found no checkpoint, expected the checkpoint of step 40, as process 0"):
        require_same_step(Steps(None), 40)
