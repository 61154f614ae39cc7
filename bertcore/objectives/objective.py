"""What every objective is: terms of a loss, over the predictions of a batch.

The loss of a global batch is the sum over the terms of `weight * loss_sum / count`, where both are first added over all
micro-batches and ranks. `counts` tells a batch's part of that divisor before the model has run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from bertcore.model.architecture import EncoderModule
from bertcore.objectives.batch import PreTrainingBatch


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What one term says about one micro-batch: sums, so that several micro-batches and ranks can be added up."""

    loss_sum: Tensor
    """Scalar, with gradient: cross entropy in nats, added over the predictions."""
    count: int
    """Predictions made."""
    correct: Tensor
    """Scalar int64: predictions whose most probable class was the right one."""


class Objective(nn.Module):
    """One objective for one model. It may own further modules: those that require gradients are trained and kept with
    the model, others (a teacher) are kept only."""

    weights: Mapping[str, float]
    """Of the terms in the loss, by name."""

    def prepare(self, model: EncoderModule) -> None:
        """Freeze what of `model` no gradient will reach, or give it other initial weights; nothing by default."""

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        """Term -> number of predictions in `batch`."""
        raise NotImplementedError

    def forward(self, model: EncoderModule, batch: PreTrainingBatch) -> dict[str, Sums]:
        """Term -> its sums over `batch`."""
        raise NotImplementedError

    def further_flops(self, batch: PreTrainingBatch) -> int:
        """Of one forward pass through what the objective computes beside the model."""
        return 0


@dataclass(frozen=True, kw_only=True)
class ObjectiveRow:
    """All that the rest of the package knows of one objective."""

    options: type
    """A frozen dataclass: `pretrain.objective_options` of params.yaml."""
    build: Callable[[EncoderModule, Any], Objective]
    """The model to be trained and the options -> the objective."""
    packings: tuple[str, ...]
    """The values of `mask.packing` whose instances have the labels that it asks for."""
    needs_pair_head: bool = False
    """Whether it asks something about pairs, for which not every architecture has a head."""
