"""Steps that must not be taken: a loss or gradient that is not finite, or a loss far above those before it."""

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from bertcore.errors import TrainingError
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.control import Control
from bertcore.training.flight_record import FlightRecord, gradient_norms
from bertcore.training.step import Computed

logger = logging.getLogger(__name__)

Rows = Callable[[int], list[dict[str, Any]]]
"""A step -> where the sequences of its global batch come from; see `training.flight_record.rows_of`."""

_MEMORY = 0.98
"""Of the running mean: it follows the last 50 steps or so."""
_SETTLED = 20
"""Steps after which the running mean is one; before, the first large gains would look like spikes."""
_WARNED = 1.3
"""Times the running mean: a loss from which a warning tells; that of a few hundred predicted tokens varies by 5 %."""
MOST_SKIPPED = 10
"""Steps skipped one after the other, before it is no longer the data that is wrong."""


class LossWatch:
    """Tells which steps must not be taken, by what the steps before were like."""

    def __init__(self, spike: float | None) -> None:
        """`spike` is `pretrain.loss_spike`."""
        self._spike = spike
        self._mean, self._steps, self._above = 0.0, 0, False
        self.skipped: list[int] = []
        """Steps that were passed over because they diverged."""

    def problem(self, loss: float, gradient_norm: float) -> str | None:
        """Why a step with this loss of the global batch must not be taken; None = it may."""
        if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
            return f"found loss {loss:g} and gradient norm {gradient_norm:g}, expected finite numbers"
        mean = self.mean
        if self._spike is not None and mean is not None and loss > self._spike * mean:
            return (
                f"found loss {loss:g}, expected at most pretrain.loss_spike ({self._spike:g}) times the {mean:g} before"
            )
        return None

    def spikes(self, loss: float) -> bool:
        """Whether a loss that may be taken is one to warn of: the first of those far above the mean."""
        before, self._above = self._above, self.mean is not None and loss > _WARNED * self.mean
        return self._above and not before

    def add(self, loss: float) -> None:
        """A step was taken."""
        self._steps += 1
        weight = max(1 - _MEMORY, 1 / self._steps)
        self._mean += weight * (loss - self._mean)

    @property
    def mean(self) -> float | None:
        """Of the loss; None in the first steps."""
        return self._mean if self._steps >= _SETTLED else None

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"mean": self._mean, "steps": self._steps, "skipped": self.skipped}

    def restore(self, state: Mapping[str, Any]) -> None:
        """What `state` gave."""
        self._mean, self._steps, self.skipped = state["mean"], state["steps"], list(state["skipped"])


class DivergenceGuard:
    """Lets a step pass, or writes down why it must not be taken and ends the training or skips the step."""

    def __init__(
        self, watch: LossWatch, model: nn.Module, control: Control, checkpoints: Checkpoints, rows: Rows, *, skip: bool
    ) -> None:
        """Flight records go beside `checkpoints`; `skip` is `pretrain.skip_on_divergence`."""
        self._watch, self._model, self._control = watch, model, control
        self._checkpoints, self._rows, self._skip = checkpoints, rows, skip

    def passes(self, step: int, computed: Computed, learning_rate: float) -> bool:
        """Whether the weights may change by the gradients of `computed`; every process must ask.

        False: the step is to be skipped. `TrainingError` where the training cannot go on.
        """
        problem = self._watch.problem(computed.loss, computed.norm)
        if problem is None:
            if self._watch.spikes(computed.loss) and self._control.main:
                logger.warning(
                    "step %s: the loss spiked from about %.3g to %.3g; if it does so again, lower "
                    "pretrain.learning_rate, or set pretrain.loss_spike",
                    f"{step:,}",
                    self._watch.mean,
                    computed.loss,
                )
            return True
        path = self._record(problem, step, computed, learning_rate)
        story = f"step {step}: {problem}; the flight record is {path} (`python -m tasks.training.replay {path}`)"
        if not self._skip:
            raise TrainingError(
                f"{story}; lower pretrain.learning_rate, lengthen pretrain.warmup_steps or set "
                "pretrain.skip_on_divergence: true"
            )
        skipped = self._watch.skipped
        skipped.append(step)
        if skipped[-MOST_SKIPPED:] == list(range(step - MOST_SKIPPED + 1, step + 1)):
            raise TrainingError(
                f"{story}; {MOST_SKIPPED} steps in a row: it is not the data; lower pretrain.learning_rate"
            )
        if self._control.main:
            logger.warning("%s; the step is skipped", story)
        return False

    def _record(self, problem: str, step: int, computed: Computed, learning_rate: float) -> Path:
        record = FlightRecord(
            step=step,
            reason=problem,
            learning_rate=learning_rate,
            loss=computed.loss,
            loss_terms=computed.losses,
            running_mean=self._watch.mean,
            gradient_norm=computed.norm,
            gradient_norms=gradient_norms(self._model),
            rows=self._rows(step) if self._control.main else [],
            checkpoint_step=self._checkpoints.latest_step(),
            world_size=self._control.world_size,
            skipped=list(self._watch.skipped),
        )
        path = record.path(self._checkpoints.directory)
        self._control.on_main(lambda: record.write(path))
        return path
