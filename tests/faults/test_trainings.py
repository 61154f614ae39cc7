"""The fault tests wait for a training as long as it goes on, and no longer."""

from pathlib import Path

import pytest

from tests.faults import trainings
from tests.faults.trainings import Training


class Clock:
    """In the place of `time`: nobody waits."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_slow_training_is_waited_for_while_it_writes_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(trainings, "time", clock)
    monkeypatch.setattr(trainings, "PATIENCE", 1.0)
    written = iter(range(7, 42, 7))

    def working() -> bool:
        clock.sleep(0.3)
        if (step := next(written, None)) is not None:
            (tmp_path / f".checkpoints/pretrain/key/step-{step:08d}").mkdir(parents=True)
        return step is not None

    Training(tmp_path).goes_on(working)
    with pytest.raises(AssertionError, match=r"no checkpoint after those of \[7, 14, 21, 28, 35\] within 1 s"):
        Training(tmp_path).goes_on(lambda: True)
