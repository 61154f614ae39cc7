"""An exponential moving average of the weights: what is evaluated and exported where `pretrain.ema_decay` is set."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_WARMUP = 10
"""The decay after n steps is at most (1 + n) / (_WARMUP + n): the initial weights are soon forgotten."""


class WeightAverage:
    """The mean of a model's weights over its last 1 / (1 - decay) steps or so."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        """It begins with the weights that `model` has now; those that are not trained stay what they are."""
        self._decay, self._steps = decay, 0
        trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self._names = list(trained)
        self._weights: list[Tensor] = list(trained.values())
        self._means = [parameter.detach().clone() for parameter in self._weights]

    @torch.no_grad()
    def update(self) -> None:
        """The model has made a step."""
        self._steps += 1
        decay = min(self._decay, (1 + self._steps) / (_WARMUP + self._steps))
        torch._foreach_lerp_(self._means, self._weights, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model has the averaged weights; after it, its own again."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for parameter, mean in zip(self._weights, self._means, strict=True):
            own = parameter.detach().clone()
            parameter.copy_(mean)
            mean.copy_(own)

    def state(self) -> dict[str, int | dict[str, Tensor]]:
        """For a checkpoint."""
        return {"steps": self._steps, "means": dict(zip(self._names, self._means, strict=True))}

    @torch.no_grad()
    def restore(self, state: Mapping[str, int | Mapping[str, Tensor]]) -> None:
        """What `state` gave."""
        steps, means = state["steps"], state["means"]
        assert isinstance(steps, int) and isinstance(means, Mapping)
        self._steps = steps
        for name, mean in zip(self._names, self._means, strict=True):
            mean.copy_(means[name])
