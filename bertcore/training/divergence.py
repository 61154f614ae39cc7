"""Steps that must not be taken: a loss or gradient that is not finite, or a loss far above those before it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from bertcore.files import write_json

_MEMORY = 0.98
"""Of the running mean: it follows the last 50 steps or so."""
_SETTLED = 20
"""Steps after which the running mean is one; before, the first large gains would look like spikes."""
MOST_SKIPPED = 10
"""Steps skipped one after the other, before it is no longer the data that is wrong."""


@dataclass(frozen=True, kw_only=True)
class FlightRecord:
    """All that is known of a step that was not taken. `python -m tasks.training.replay FILE` computes it again."""

    step: int
    """Optimizer steps before it; also the number of its global batch."""
    reason: str
    learning_rate: float
    loss: float
    loss_terms: dict[str, float]
    running_mean: float | None
    """Of the loss over the steps before."""
    gradient_norm: float
    gradient_norms: dict[str, float]
    """Of each part of the model."""
    rows: list[dict[str, Any]]
    """The global batch: for each shard its `epoch`, `rows` and the `documents` that they show."""
    checkpoint_step: int | None
    """Of the checkpoint before it; None = it was computed from the initial weights."""
    world_size: int
    skipped: list[int]
    """Steps that were skipped before."""

    def path(self, directory: Path) -> Path:
        """Its file in `directory`, named after the step."""
        return directory / f"diverged-step-{self.step:08d}.json"

    def write(self, path: Path) -> None:
        """As JSON; numbers that JSON has not are text."""
        write_json(path, _finite(asdict(self)))


class LossWatch:
    """Tells which steps must not be taken, by what the steps before were like."""

    def __init__(self, spike: float | None) -> None:
        self._spike = spike
        self._mean, self._steps = 0.0, 0

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

    def add(self, loss: float) -> None:
        """A step was taken."""
        self._steps += 1
        weight = max(1 - _MEMORY, 1 / self._steps)
        self._mean += weight * (loss - self._mean)

    @property
    def mean(self) -> float | None:
        """Of the loss; None in the first steps."""
        return self._mean if self._steps >= _SETTLED else None

    def state(self) -> dict[str, float]:
        """For a checkpoint."""
        return {"mean": self._mean, "steps": self._steps}

    def restore(self, state: Mapping[str, float]) -> None:
        """What `state` gave."""
        self._mean, self._steps = state["mean"], int(state["steps"])


def gradient_norms(model: nn.Module) -> dict[str, float]:
    """The norm of the gradient of each part of the model: embeddings, every layer, heads."""
    return _norms((name, parameter.grad) for name, parameter in model.named_parameters() if parameter.grad is not None)


def weight_norms(model: nn.Module) -> dict[str, float]:
    """The norm of the weights of each part of the model."""
    return _norms(model.named_parameters())


def _norms(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, float]:
    squares: dict[str, float] = {}
    for name, tensor in tensors:
        part = part_of(name)
        square = tensor.detach().double().square().sum()
        whole = square.full_tensor() if isinstance(square, DTensor) else square  # of weights divided among processes
        squares[part] = squares.get(part, 0.0) + float(whole)
    return {part: math.sqrt(square) for part, square in squares.items()}


def part_of(parameter: str) -> str:
    """`bert.encoder.layer.3.output.dense.weight` -> `bert.encoder.layer.3`; elsewhere the first two names."""
    names = parameter.split(".")
    if "layer" in names:
        return ".".join(names[: names.index("layer") + 2])
    return ".".join(names[:2])


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
