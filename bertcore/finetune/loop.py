"""The training of one run: which sequences a step reads, the step, learning rates by layer, and the choice of an epoch.

Nothing here knows the family that is trained.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from bertcore import draws
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import Family
from bertcore.finetune.features import Batch, Features
from bertcore.finetune.short_training import ShortTraining
from bertcore.memory import explained
from bertcore.model.encoder import EncoderModule
from bertcore.training.machine import micro_batch_size
from bertcore.training.metrics import History, Report
from bertcore.training.optimizers.groups import LR_SCALE

_GROUPED = 50
"""Batches whose sequences are sorted by length among themselves, as in Hugging Face's `group_by_length`."""


class Loop(ShortTraining):
    """The training of `model` on the sequences of `features`, step by step."""

    remedy = "lower the task's learning_rate or raise its warmup_ratio"
    _config: RunConfig

    def __init__(
        self,
        model: EncoderModule,
        task: RunConfig,
        family: Family,
        features: Features,
        accelerator: Accelerator,
        report: Report,
        teacher_logits: NDArray[np.float32] | None = None,
    ) -> None:
        """`teacher_logits`: for all of `features`, where the task has a teacher."""
        super().__init__(model, task, batches(features.group_lengths, task), accelerator, report)
        self._family, self._features, self._teacher_logits = family, features, teacher_logits
        scale_layers(self._optimizer, model, task.layer_decay)

    def backward(self, step: int, rows: NDArray[np.int64]) -> Tensor:
        """Add the gradient of the mean loss over the groups `rows`; that loss."""
        of_parts = list(self._micro_batches(rows))
        parts = [self._features.batch(each) for each in of_parts]
        count = max(sum(part.count for part in parts), 1)
        total = torch.zeros((), device=self._accelerator.device)
        for part, own in zip(parts, of_parts, strict=True):
            with self._explained(part):
                batch = part.to(self._accelerator.device)
                with self._accelerator.autocast():
                    logits = self._model(batch.input_ids, batch.token_type_ids, batch.layout)
                loss = self._loss(logits, batch, own) / count
                self._accelerator.backward(loss)
            total += loss.detach()
        return total

    def _explained(self, part: Batch) -> AbstractContextManager[None]:
        """What to do where the micro-batch does not fit."""
        sequences, tokens = part.layout.batch_size, part.layout.total
        smaller = [f"BERTCORE_MICRO_BATCH below {sequences} (the same batch, in parts)"] if sequences > 1 else []
        what = f"task {self._config.data}: {sequences} sequences ({tokens} tokens) at once do"
        return explained(what, *smaller, "the task's sequence_length lower")

    def _micro_batches(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The sequences of the groups `rows` in parts of whole groups, of about the size that the machine asks for."""
        count = len(self._features.sequences(rows))
        size = max(micro_batch_size(count) * len(rows) // count, 1)
        for start in range(0, len(rows), size):
            yield self._features.sequences(rows[start : start + size])

    def _loss(self, logits: Tensor, batch: Batch, rows: NDArray[np.int64]) -> Tensor:
        """Summed over the batch, which has the sequences `rows`: that of the labels, and the teacher's share."""
        distillation = self._config.distillation
        if self._teacher_logits is None or distillation is None:
            return self._family.loss(self._model, logits, batch)
        places = self._features.places(rows, len(self._teacher_logits))
        expected = torch.from_numpy(self._teacher_logits[places]).to(logits.device)
        soft = self._family.soft_loss(logits, expected, batch, distillation.temperature)
        if distillation.alpha == 1.0:
            return soft
        return (1 - distillation.alpha) * self._family.loss(self._model, logits, batch) + distillation.alpha * soft


class EarlyChoice:
    """Keeps the weights of the epoch with the best `headline`, the first of equals; `score` gives a model's metrics on
    examples that are neither trained on nor reported."""

    def __init__(
        self,
        model: EncoderModule,
        score: Callable[[EncoderModule], dict[str, float]],
        headline: str,
        history: History,
        steps_per_epoch: int,
    ) -> None:
        self._model, self._score, self._headline = model, score, headline
        self._history, self._steps_per_epoch = history, steps_per_epoch
        self._best: tuple[float, dict[str, Tensor]] | None = None
        self.best_epoch = 0
        """Counted from 1."""

    def after_step(self, step: int) -> None:
        """Score the model as it is now, where an epoch ends."""
        epoch, rest = divmod(step, self._steps_per_epoch)
        if rest:
            return
        scores = self._score(self._model)
        self._history.add(step, {f"choice/{metric}": value for metric, value in scores.items()})
        if self._best is None or scores[self._headline] > self._best[0]:
            weights = {name: tensor.detach().clone() for name, tensor in self._model.state_dict().items()}
            self._best, self.best_epoch = (scores[self._headline], weights), epoch

    def restore(self) -> None:
        """Give the model the weights of the best epoch."""
        assert self._best is not None, "a run without epochs"
        self._model.load_state_dict(self._best[1])


def batches(lengths: NDArray[np.int64], task: RunConfig) -> list[NDArray[np.int64]]:
    """The groups of every step of a run, whose `lengths` are given: a pure function of (seed, epoch) for each epoch."""
    return [rows for epoch in range(task.epochs) for rows in _epoch(lengths, task, epoch)]


def _epoch(lengths: NDArray[np.int64], task: RunConfig, epoch: int) -> list[NDArray[np.int64]]:
    order = draws.permutation(draws.key("finetune", task.seed, epoch), len(lengths))
    if task.group_by_length:
        size = _GROUPED * task.batch_size
        parts = (order[start : start + size] for start in range(0, len(order), size))
        order = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts])
    found = [order[start : start + task.batch_size] for start in range(0, len(order), task.batch_size)]
    if task.group_by_length:  # sorted batches in a random order, so that lengths do not rise and fall with the steps
        shuffled = draws.permutation(draws.key("finetune batches", task.seed, epoch), len(found))
        found = [found[place] for place in shuffled]
    return found


def scale_layers(optimizer: Optimizer, model: EncoderModule, decay: float) -> None:
    """Split the groups of `optimizer`, which has made no step yet, into one for each layer, with its `LR_SCALE`.

    1 for the head and the pooler, `decay` for the topmost layer, its square for the one below it, and so on down to the
    embeddings. What a group says of each of its parameters (`blocks`) is split with them.
    """
    if decay == 1.0:
        return
    depth = _steps_below_head(model)
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        for steps in sorted({depth[parameter] for parameter in group["params"]}):
            places = [place for place, parameter in enumerate(group["params"]) if depth[parameter] == steps]
            parallel = {name: [group[name][place] for place in places] for name in _parallel(group)}
            groups.append({**group, **parallel, LR_SCALE: decay**steps})
    optimizer.param_groups[:] = groups


def _parallel(group: dict[str, Any]) -> list[str]:
    """The entries that have a value for each parameter."""
    return ["params", *(["blocks"] if group.get("blocks") else [])]


def _steps_below_head(model: EncoderModule) -> dict[Parameter, int]:
    base = model.base_model
    layers = list(dict.fromkeys(base.layers))  # one that is passed through several times is one step
    steps = dict.fromkeys(model.parameters(), 0)
    for module in base.below_layers:
        steps |= dict.fromkeys(module.parameters(), len(layers) + 1)
    for index, layer in enumerate(layers):
        steps |= dict.fromkeys(layer.parameters(), len(layers) - index)
    return steps
