"""Loss and accuracy on held-out text, the same sequences every time."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn

from bertcore import draws
from bertcore.errors import TrainingError
from bertcore.instances.sources import InstanceSource
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.ragged import offsets_of
from bertcore.training.control import Control
from bertcore.training.loader import Pool
from bertcore.training.machine import micro_batch_size
from bertcore.training.step import Tally, as_batch, explain_out_of_memory

_BATCH = 64
"""Sequences at most of a batch that is only evaluated."""


class HeldOut:
    """A random choice of `sequences` of `sources` (all where there are fewer), divided among the processes.

    The choice depends on the number of sequences alone: trainings with other seeds and on more processes see the same.
    """

    def __init__(
        self,
        sources: Sequence[InstanceSource],
        sequences: int,
        accelerator: Accelerator,
        control: Control,
        encoder_key: str,
        name: str = "eval",
    ) -> None:
        """For `encoder_key` see `explain_out_of_memory`; `name` begins the names of the metrics."""
        offsets = offsets_of(np.array([len(source) for source in sources], np.int64))
        chosen = draws.permutation(draws.key("held-out rows"), int(offsets[-1]))[:sequences]
        self._chosen = Pool(sources, offsets, np.sort(chosen))  # as in the files, so that neighbours are read together
        self._accelerator, self._control, self._name = accelerator, control, name
        self._encoder_key = encoder_key

    def evaluate(
        self, module: nn.Module, weights: Mapping[str, float], step: int, between: Callable[[], None]
    ) -> dict[str, float]:
        """Of a `WithObjective` as the accelerator has prepared it, with the weights of its terms; `between` is called
        before every batch.

        Beside what the objective gives, `NAME/heldout_sequences` says how many were evaluated. `TrainingError` naming
        `step` where the loss is not finite, or a batch does not fit into the memory.
        """
        module.eval()
        tally = Tally()
        for batch, counts in self._batches():
            between()
            explained = explain_out_of_memory(step, self._encoder_key, batch)
            with explained, torch.no_grad(), self._accelerator.autocast():
                terms = module(batch.to(self._accelerator.device, non_blocking=True))
            if counts:
                tally.add(terms)
        module.train()
        metrics = tally.metrics(self._control, self._name, weights)
        loss = metrics.get(f"{self._name}/loss", 0.0)
        if not math.isfinite(loss):
            raise TrainingError(
                f"step {step}: found held-out loss {loss}, expected a finite number; lower "
                "pretrain.learning_rate or lengthen pretrain.warmup_steps"
            )
        return {**metrics, f"{self._name}/heldout_sequences": len(self._chosen.order)} if metrics else metrics

    def _batches(self) -> Iterator[tuple[PreTrainingBatch, bool]]:
        """As many for every process; False where it has none of its own left.

        Divided weights are put together for a forward pass, so every process must make one.
        """
        rank, world = self._accelerator.process_index, self._accelerator.num_processes
        places, size = np.arange(len(self._chosen.order)), micro_batch_size(_BATCH) * world
        for start in range(0, len(places), size):
            own = places[start : start + size][rank::world]
            rows = own if len(own) else places[:1]
            keys = draws.bits(draws.key("held-out draws"), rows.astype(np.uint64))
            yield as_batch(self._chosen.take(rows), keys), bool(len(own))
