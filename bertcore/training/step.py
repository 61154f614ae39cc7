"""One step of the training up to its gradients: forward and backward over the micro-batches of the global batch."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from torch import nn
from torch.distributed.tensor import DTensor

from bertcore.errors import TrainingError
from bertcore.instances.sources import Instances
from bertcore.model.bert import BertForPreTraining
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import Objective
from bertcore.objectives.sums import Sums
from bertcore.training.control import Control
from bertcore.training.distributed import activation_checkpointing, micro_batch_size
from bertcore.training.flops import training_flops
from bertcore.training.metrics import Tally
from bertcore.training.micro_batches import as_batch, split


class WithObjective(nn.Module):
    """The forward pass up to the sums of the loss: wrappers that convert outputs never see the logits."""

    def __init__(self, model: BertForPreTraining, objective: Objective) -> None:
        super().__init__()
        self.model, self._objective = model, objective

    def forward(self, batch: PreTrainingBatch) -> dict[str, Sums]:
        return self._objective(self.model, batch)


@dataclass(frozen=True)
class Computed:
    """A step whose gradients are there, but not yet applied."""

    counts: dict[str, int]
    """Predictions of every term, tokens and FLOPs in the global batch."""
    tally: Tally
    """Of this process."""
    losses: dict[str, float]
    """Of every term, over the global batch."""
    gradient_norm: torch.Tensor
    """By which the gradients are clipped, on their device."""
    norm: float
    """The same, read from there."""

    @property
    def loss(self) -> float:
        return sum(self.losses.values())


class Gradients:
    """Computes the gradients of global batches; adding up over micro-batches and ranks changes nothing but rounding."""

    def __init__(self, module: nn.Module, objective: Objective, accelerator: Accelerator, control: Control) -> None:
        """`module` is a `WithObjective` as the accelerator has prepared it."""
        self._module, self._objective = module, objective
        self._accelerator, self._control = accelerator, control
        self._config = accelerator.unwrap_model(module).model.config

    def compute(self, step: int, instances: Instances) -> Computed:
        """Those of the batch of which `instances` are this process's, into the parameters' `grad`.

        `TrainingError` naming `step` where a micro-batch does not fit into the memory.
        """
        accelerator, world = self._accelerator, self._accelerator.num_processes
        parts = [as_batch(part) for part in split(instances, micro_batch_size(len(instances)))]
        counts, tally = self._global_counts(parts), Tally()  # before they are on a device, which would be waited for
        for index, batch in enumerate(parts):
            last = index == len(parts) - 1
            with fitting(step, batch), nullcontext() if last else accelerator.no_sync(self._module):
                with accelerator.autocast():
                    terms = self._module(batch.to(accelerator.device, non_blocking=True))
                # Over the whole global batch; times the ranks, because their gradients are averaged.
                loss = sum(sums.loss_sum / counts[term] for term, sums in terms.items()) * world
                accelerator.backward(loss)
            tally.add(terms)
        gradients = [parameter.grad for parameter in self._module.parameters() if parameter.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        whole = norm.full_tensor() if isinstance(norm, DTensor) else norm  # of gradients divided among processes
        return Computed(counts, tally, self._losses(tally, counts), norm, float(whole))

    def _losses(self, tally: Tally, counts: dict[str, int]) -> dict[str, float]:
        names = sorted(tally.totals)
        sums = self._control.sum([float(tally.totals[name][0]) for name in names])
        return {name: value / max(counts[name], 1) for name, value in zip(names, sums, strict=True)}

    def _global_counts(self, parts: list[PreTrainingBatch]) -> dict[str, int]:
        """Predictions of every term, tokens and FLOPs in the global batch."""
        local = Counter[str]()
        for part in parts:
            local.update(self._objective.counts(part))
            local.update(tokens=part.layout.total, flops=training_flops(self._config, part))
        names = sorted(local)
        sums = self._control.sum([local[name] for name in names])
        return {name: int(value) for name, value in zip(names, sums, strict=True)}


@contextmanager
def fitting(step: int, batch: PreTrainingBatch | None = None) -> Iterator[None]:
    """A `TrainingError` with the remedy in place of torch's or numpy's, where the memory does not suffice for `batch`.

    Without one, for the optimizer's state.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        known = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)
        if not known:
            raise
        what, remedies = "the optimizer's state does", ["a smaller pretrain.model.preset"]
        if batch is not None:
            sequences = batch.layout.batch_size
            what = f"{sequences} sequences ({batch.layout.total} tokens) at once do"
            if not activation_checkpointing():
                remedies.insert(0, "BERTCORE_ACTIVATION_CHECKPOINTING=1")
            if sequences > 1:
                remedies.insert(0, f"BERTCORE_MICRO_BATCH below {sequences} (the same global batch, in parts)")
        raise TrainingError(f"step {step}: {what} not fit into the memory; set {' or '.join(remedies)}") from error
