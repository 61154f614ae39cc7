"""The record of a step that was not taken: its loss, the norms of its gradients, and the rows of its batch."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.distributed.tensor import DTensor

from bertcore.files import write_json
from bertcore.instances.arrays import Instances
from bertcore.instances.sources import DrawnInstances
from bertcore.training.loader import Loader, Phases


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


def rows_of(batches: Loader | Phases, step: int) -> list[dict[str, Any]]:
    """For each shard in the global batch of `step`: its name, the epoch, the rows and the documents they show.

    `batches` gives sequences that are drawn; a static copy has the same rows.
    """
    loader, step = batches.at(step) if isinstance(batches, Phases) else (batches, step)
    seen: list[dict[str, Any]] = []
    open_epoch = loader.open_epoch
    traced = replace(loader, open_epoch=lambda epoch: [_Traced(source, seen) for source in open_epoch(epoch)])
    traced.batch(step)
    return seen


@dataclass
class _Traced:
    """A source that writes down what is taken of it."""

    source: Any
    seen: list[dict[str, Any]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: NDArray[np.int64]) -> Instances:
        source: DrawnInstances = self.source
        entry = {"shard": source.name, "epoch": source.epoch, "rows": rows.tolist()}
        self.seen.append({**entry, "documents": _documents(source, rows)})
        return source.take(rows)


def _documents(source: DrawnInstances, rows: NDArray[np.int64]) -> list[Sequence[int]]:
    """The documents, counted from 0 in the shard, of which each row has text."""
    packed, shard = source.packed, source.shard
    begins = shard.sentence_offsets[shard.document_offsets]
    which = source.rows_of(rows)
    segments = [packed.starts[packed.row_offsets[row] : packed.row_offsets[row + 1]] for row in which.tolist()]
    return [np.unique(np.searchsorted(begins, starts, side="right") - 1).tolist() for starts in segments]


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
