"""A training of minutes, which begins anew where it was killed: its steps, its rates and what it reports."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Module

from bertcore.config import within
from bertcore.progress import Progress
from bertcore.training.metrics import CURVE_POINTS, History, Report, means
from bertcore.training.optimizers import build_optimizer
from bertcore.training.optimizers.config import OptimizationConfig
from bertcore.training.optimizers.groups import set_learning_rate
from bertcore.training.schedule import check_warmup_ratio, rate_share


@dataclass(frozen=True, kw_only=True)
class ShortTrainingConfig(OptimizationConfig):
    """How the gradients of a training that is begun anew where it was killed become its steps."""

    warmup_ratio: float = 0.1
    """Share of the steps in which the learning rate rises linearly from 0 to its peak."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "warmup_ratio", "a share between 0 and 1, such as 0.1", least=0.0, most=1.0)
        check_warmup_ratio(self.warmup_ratio, self.schedule)


class ShortTraining(ABC):
    """Of `model`, on `batches`: the rows that each step reads."""

    remedy: str
    """Said where the loss is not finite."""

    def __init__(
        self,
        model: Any,
        config: ShortTrainingConfig,
        batches: list[NDArray[Any]],
        accelerator: Accelerator,
        report: Report,
    ) -> None:
        self._model: Module = model
        self._config, self._batches, self._accelerator = config, batches, accelerator
        self._optimizer = build_optimizer(model, config)
        self.history = History(report)

    @abstractmethod
    def backward(self, step: int, rows: NDArray[Any]) -> Tensor:
        """Add the gradients of the loss of `rows` to the weights; the loss."""

    @property
    def steps(self) -> int:
        """Optimizer steps."""
        return len(self._batches)

    def run(self, name: str, after_step: Callable[[int], None] | None = None) -> None:
        """Make all steps, with the progress shown under `name`, and leave the model as it is for evaluation.
        `after_step` is called with the number of finished steps, and must leave the model as it is."""
        every = max(self.steps // CURVE_POINTS, 1)
        losses, note, progress = list[Tensor](), "", Progress(name, self.steps)
        self._model.train()
        for step, rows in enumerate(self._batches, start=1):
            rate = self._set_rate(step)
            losses.append(self.backward(step, rows))
            norm = self._clip()
            self._optimizer.step()
            self._optimizer.zero_grad()
            if step % every == 0 or step == self.steps:
                metrics = means(step, losses, norm, rate, self.remedy)
                self.history.add(step, metrics)
                note = f"loss {metrics['train/loss']:.3f}"
                losses.clear()
            progress.advance(note)
            if after_step is not None:
                after_step(step)
        progress.close()
        self._model.eval()

    def _set_rate(self, step: int) -> float:
        config = self._config
        warmup = int(config.warmup_ratio * self.steps)
        rate = config.learning_rate * rate_share(config.schedule, step - 1, warmup, self.steps)
        set_learning_rate(self._optimizer, rate)
        return rate

    def _clip(self) -> Any:
        bound = float("inf") if self._config.max_grad_norm is None else self._config.max_grad_norm
        return self._accelerator.clip_grad_norm_(self._model.parameters(), bound)
