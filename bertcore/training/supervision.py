"""Who follows a training and may stop it, and when a checkpoint is written."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from accelerate import Accelerator

from bertcore.errors import StoppedError
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.control import Control
from bertcore.training.metrics import Report, silent
from bertcore.training.state import TrainingState
from bertcore.training.stopping import StopRequest

_TIMES = 50
"""After at least this many times the seconds that writing the last checkpoint took, the clock asks for the next: all
processes wait while one is written, and so lose at most a fiftieth of their time, however large the model and slow the
disk."""


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """Who follows a training, and who may stop it."""

    report: Report = silent
    run_id: str = ""
    """Where the reports go; a checkpoint says it."""
    stop: StopRequest = field(default_factory=StopRequest)
    clock: Callable[[], float] = time.monotonic
    """Seconds, of which some pass between two checkpoints."""


class Interrupted(Exception):  # noqa: N818  (nobody's error, and never seen by the user)
    """The work at hand is to be left, because the training was asked to stop."""


class Keeper:
    """Writes the checkpoints of a training: by the clock, by the steps, and where it is asked to stop."""

    def __init__(
        self,
        config: PretrainConfig,
        state: TrainingState,
        accelerator: Accelerator,
        control: Control,
        checkpoints: Checkpoints,
        supervision: Supervision,
        stable: Checkpoints | None = None,
    ) -> None:
        self._config, self._state, self._checkpoints = config, state, checkpoints
        self._accelerator, self._control, self._supervision = accelerator, control, supervision
        self._stable = None if config.stable_steps is None else stable
        self._clock, self._writing = supervision.clock, 0.0
        self.restart_clock()

    def restart_clock(self) -> None:
        """Count `checkpoint_seconds` from now on."""
        self._saved = self._clock()

    def save(self) -> None:
        """Write a checkpoint; every process must ask."""
        began = self._clock()
        self._save_in(self._checkpoints)
        self.restart_clock()
        self._writing = self._saved - began

    def _save_in(self, checkpoints: Checkpoints) -> None:
        self._state.save(checkpoints, self._accelerator, self._control, self._supervision.run_id)

    def stable_phase(self, most: int | None = None) -> dict[str, Any] | None:
        """The state at the longest stable phase that is a part of this training (of at most `most` steps)."""
        if self._stable is None or self._config.stable_steps is None:
            return None
        stable = self._config.stable_steps
        return self._stable.latest(stable if most is None else min(stable, most))

    def save_or_stop(self) -> None:
        """Write a checkpoint where one is due by rank 0's clock or by the steps; `StoppedError` where it was asked for.

        Every process must ask.
        """
        config, main = self._config, self._accelerator.is_main_process
        timed = main and self._clock() - self._saved > max(config.checkpoint_seconds, _TIMES * self._writing)
        stop, due = self._control.sum([self._supervision.stop.requested, timed])
        counted = config.checkpoint_steps is not None and self._state.step % config.checkpoint_steps == 0
        if self._stable is not None and self._state.step == config.stable_steps:
            self._save_in(self._stable)
        if stop:
            self.end()
        if due or counted:
            self.save()

    def interrupt_if_asked(self) -> None:
        """`Interrupted` where any process was asked to stop: the caller puts its things in order, and calls `end`."""
        if self._control.any(self._supervision.stop.requested):
            raise Interrupted

    def end(self) -> NoReturn:
        """Write a checkpoint and raise `StoppedError`; every process must ask."""
        self.save()
        raise StoppedError(
            f"at step {self._state.step} of {self._config.max_steps}, with a checkpoint in "
            f"{self._checkpoints.directory}; run the same command again (`dvc repro`, `make pretrain`) to go on from "
            "there"
        )
