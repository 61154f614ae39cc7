"""New heads on a published encoder: trained alone at first, so that their noise does not spoil what it knows."""

import logging
from collections.abc import Collection

from torch import nn

from bertcore.training.config import PretrainConfig

logger = logging.getLogger(__name__)

_RISE = 0.1
"""Share of the heads' own steps in which their learning rate rises from 0."""


class HeadWarmup:
    """Leaves all weights but the new ones as they are for the first `pretrain.head_warmup_steps`, at the peak of the
    learning rate, and lets it rise anew when the others join: their optimizer's means begin there."""

    def __init__(self, model: nn.Module, new: Collection[str], config: PretrainConfig, *, log: bool = True) -> None:
        """`new` are names of parameters of `model`, a `WithObjective`; those that are not trained do not count."""
        trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
        heads = [name.removeprefix("model.") for name in trained if name in new]
        self._config, self._steps = config, config.head_warmup if heads else 0
        self._frozen = [each for name, each in trained.items() if name not in new]
        if heads and log:
            logger.info(
                "%s has no %s: new weights, %s",
                config.init_from,
                ", ".join(heads),
                f"trained alone for the first {self._steps} steps" if self._steps else "trained with all others",
            )

    def learning_rate(self, step: int) -> float:
        """Of `step`: the schedule's, which begins with the steps of all weights. New heads alone have its peak."""
        config, joined = self._config, step - self._steps
        if joined < 0:
            return config.learning_rate * min(1.0, step / max(_RISE * self._steps, 1.0))
        if self._steps and joined < config.warmup:
            return config.learning_rate_at(max(step, config.warmup)) * joined / config.warmup
        return config.learning_rate_at(step)

    def drop_gradients(self, step: int) -> None:
        """Leave only the new heads' gradients of `step`, if it is one of the first."""
        if step < self._steps:
            for parameter in self._frozen:
                parameter.grad = None
