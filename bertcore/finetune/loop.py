"""The training loop of one run; it knows nothing of the family it trains."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor

from bertcore.errors import TrainingError
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import Family
from bertcore.finetune.features import Features
from bertcore.finetune.layer_decay import scale_layers, set_learning_rate
from bertcore.finetune.order import batches
from bertcore.model.bert import BertModule
from bertcore.progress import Progress
from bertcore.training.distributed import micro_batch_size
from bertcore.training.history import Report
from bertcore.training.optimizers import build_optimizer
from bertcore.training.schedule import SCHEDULES

_CURVE_POINTS = 100
"""Points of a training curve, about."""


class Loop:
    """Trains `model` on the sequences of `features`."""

    def __init__(
        self,
        model: BertModule,
        task: RunConfig,
        family: Family,
        features: Features,
        accelerator: Accelerator,
        report: Report,
    ) -> None:
        self._model, self._task, self._family, self._features = model, task, family, features
        self._accelerator, self._report = accelerator, report
        self._batches = batches(features.lengths, task)
        self._optimizer = build_optimizer(model, task)
        scale_layers(self._optimizer, model, task.layer_decay)
        self.curves: list[dict[str, float]] = []
        """`step`, and the means since the point before."""

    @property
    def steps(self) -> int:
        """Optimizer steps of the run."""
        return len(self._batches)

    def run(self, name: str, after_epoch: Callable[[int, int], None] | None = None) -> None:
        """`name` is what the progress is shown under; `after_epoch` is called with the numbers of finished epochs and
        steps, and must leave the model as it is."""
        every, per_epoch = max(self.steps // _CURVE_POINTS, 1), self.steps // self._task.epochs
        losses: list[Tensor] = []
        progress = Progress(name, self.steps)
        self._model.train()
        for step, rows in enumerate(self._batches, start=1):
            loss, norm, rate = self._step(step, rows)
            losses.append(loss)
            if step % every == 0 or step == self.steps:
                self._record(step, _metrics(step, losses, norm, rate))
                losses.clear()
            progress.advance(f"loss {self.curves[-1]['train/loss']:.3f}" if self.curves else "")
            if after_epoch is not None and step % per_epoch == 0:
                after_epoch(step // per_epoch, step)
        progress.close()

    def _step(self, step: int, rows: NDArray[np.int64]) -> tuple[Tensor, Any, float]:
        task = self._task
        warmup = int(task.warmup_ratio * self.steps)
        rate = task.learning_rate * SCHEDULES[task.schedule](step - 1, warmup, self.steps)
        set_learning_rate(self._optimizer, rate)
        loss = self._backward(rows)
        bound = float("inf") if task.max_grad_norm is None else task.max_grad_norm
        norm = self._accelerator.clip_grad_norm_(self._model.parameters(), bound)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return loss, norm, rate

    def _backward(self, rows: NDArray[np.int64]) -> Tensor:
        """Add the gradient of the mean loss over the sequences `rows`, and give that loss."""
        size = micro_batch_size(len(rows))
        parts = [self._features.batch(rows[at : at + size]) for at in range(0, len(rows), size)]
        count = max(sum(part.count for part in parts), 1)
        total = torch.zeros((), device=self._accelerator.device)
        for part in parts:
            batch = part.to(self._accelerator.device)
            with self._accelerator.autocast():
                logits = self._model(batch.input_ids, batch.token_type_ids, batch.layout)
            loss = self._family.loss(self._model, logits, batch) / count
            self._accelerator.backward(loss)
            total += loss.detach()
        return total

    def _record(self, step: int, metrics: dict[str, float]) -> None:
        self.curves.append({"step": step, **metrics})
        self._report(step, metrics)


def _metrics(step: int, losses: list[Tensor], norm: Any, rate: float) -> dict[str, float]:
    """Means since the last call; reading them waits for the device."""
    loss, gradient_norm = float(torch.stack(losses).mean()), float(norm)
    if not np.isfinite([loss, gradient_norm]).all():
        raise TrainingError(
            f"step {step}: found loss {loss} and gradient norm {gradient_norm}, expected finite numbers; "
            "lower the task's learning_rate or raise its warmup_ratio"
        )
    return {"train/loss": loss, "train/gradient_norm": gradient_norm, "train/learning_rate": rate}
