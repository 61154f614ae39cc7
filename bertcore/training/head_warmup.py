"""New heads on a published encoder: trained alone at first, so that their noise does not spoil what it knows."""

import logging
from collections.abc import Collection

from torch import nn

from bertcore.training.config import PretrainConfig

logger = logging.getLogger(__name__)


class HeadWarmup:
    """Leaves all weights but the new ones as they are for the first `pretrain.head_warmup_steps`, and lets the learning
    rate rise anew when the others join: their optimizer's means begin there."""

    def __init__(self, model: nn.Module, new: Collection[str], config: PretrainConfig, *, log: bool = True) -> None:
        """`new` are names of parameters of `model`, a `WithObjective`; those that are not trained do not count."""
        trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
        heads = [name.removeprefix("model.") for name in trained if name in new]
        self._steps = config.head_warmup if heads else 0
        self._warmup = config.warmup
        self._frozen = [each for name, each in trained.items() if name not in new]
        if heads and log:
            logger.info(
                "%s has no %s: new weights, %s",
                config.init_from,
                ", ".join(heads),
                f"trained alone for the first {self._steps} steps" if self._steps else "trained with all others",
            )

    def rate_share(self, step: int) -> float:
        """What of its scheduled learning rate `step` has."""
        if not self._steps <= step < self._steps + self._warmup or not self._steps:
            return 1.0
        return (step - self._steps) / self._warmup

    def drop_gradients(self, step: int) -> None:
        """Leave only the new heads' gradients of `step`, if it is one of the first."""
        if step < self._steps:
            for parameter in self._frozen:
                parameter.grad = None
