"""What one objective says about one micro-batch: sums, so that several micro-batches and ranks can be added up."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Sums:
    """The loss of a global batch is the sum of all `loss_sum` over the sum of all `count`."""

    loss_sum: Tensor
    """Scalar, with gradient: cross entropy in nats, added over the predictions."""
    count: int
    """Predictions made."""
    correct: Tensor
    """Scalar int64: predictions whose most probable class was the right one."""
