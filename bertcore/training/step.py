"""One step of the training up to its gradients: forward and backward over the micro-batches of the global batch."""

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.distributed.tensor import DTensor

from bertcore import draws
from bertcore.instances.arrays import Instances
from bertcore.memory import explained
from bertcore.model.encoder import EncoderModule
from bertcore.model.layers import EncoderLayer
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.objective import Objective, Sums
from bertcore.training.config import PretrainConfig
from bertcore.training.control import Control
from bertcore.training.flops import training_flops
from bertcore.training.head_warmup import HeadWarmup
from bertcore.training.loader import Loader, Phases, prefetch
from bertcore.training.machine import activation_checkpointing, micro_batch_size


class WithObjective(nn.Module):
    """The forward pass up to the sums of the loss: wrappers that convert outputs never see the logits."""

    def __init__(self, model: EncoderModule, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective
        layers = {type(module).__name__ for module in self.modules() if isinstance(module, EncoderLayer)}
        self._no_split_modules = sorted(layers)
        """What FSDP divides as a whole, under the name by which accelerate looks for it."""

    def forward(self, batch: PreTrainingBatch) -> dict[str, Sums]:
        return self.objective(self.model, batch)


@dataclass
class Tally:
    """Sums of an objective's terms over micro-batches, kept on the device until they are asked for."""

    totals: dict[str, torch.Tensor] = field(default_factory=dict)
    """term -> (3,) float64: summed loss, right predictions (NaN where nothing can be right), predictions; (4,) with
    `Sums.majority`, where there are two classes."""

    def add(self, terms: Mapping[str, Sums]) -> None:
        """What the objective said about one micro-batch."""
        for term, sums in terms.items():
            loss_sum = sums.loss_sum.detach()
            correct = torch.full_like(loss_sum, torch.nan) if sums.correct is None else sums.correct
            row = [loss_sum, correct, torch.full_like(loss_sum, sums.count)]
            row += [] if sums.majority is None else [sums.majority]
            self._add(term, torch.stack([value.double() for value in row]))

    def merge(self, other: "Tally") -> None:
        """All that `other` holds."""
        for term, row in other.totals.items():
            self._add(term, row)

    def metrics(self, control: Control, prefix: str, weights: Mapping[str, float]) -> dict[str, float]:
        """Mean loss and accuracy of every term over all processes, that of the most frequent class where the term has
        one, and the total loss, in which each term has its weight; empty where nothing was added.

        The sums start anew.
        """
        # A process may have had no row of a small set.
        gathered = control.gather({name: len(row) for name, row in self.totals.items()})
        widths = dict(sorted(pair for each in gathered for pair in each.items()))
        if not widths:
            return {}
        sums = iter(control.sum([value for name, width in widths.items() for value in self._row(name, width)]))
        result: dict[str, float] = {}
        for term, width in widths.items():
            loss_sum, correct, count, *majority = islice(sums, width)
            result[f"{prefix}/{term}_loss"] = loss_sum / max(count, 1)
            if not math.isnan(correct):
                result[f"{prefix}/{term}_accuracy"] = correct / max(count, 1)
            result |= {f"{prefix}/{term}_majority": max(value, count - value) / max(count, 1) for value in majority}
        self.totals.clear()
        return {f"{prefix}/loss": sum(weights[term] * result[f"{prefix}/{term}_loss"] for term in widths), **result}

    def _row(self, term: str, width: int) -> list[float]:
        return self.totals[term].tolist() if term in self.totals else [0.0] * width

    def _add(self, term: str, row: torch.Tensor) -> None:
        self.totals[term] = self.totals[term] + row if term in self.totals else row


@dataclass(frozen=True)
class Prepared:
    """One rank's part of a global batch, on the CPU."""

    parts: list[PreTrainingBatch]
    """The micro-batches."""
    counts: Counter[str]
    """Predictions of every term, tokens and FLOPs in all of them."""


@dataclass(frozen=True)
class Computed:
    """One step's gradients, computed but not yet applied: its losses, counts and gradient norm."""

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

    weights: Mapping[str, float]
    """Of every term in the loss."""

    @property
    def loss(self) -> float:
        return sum(self.weights[term] * value for term, value in self.losses.items())


class Gradients:
    """Computes the gradients of global batches, whatever parts of them are computed at once and by which rank."""

    def __init__(
        self,
        module: nn.Module,
        objective: Objective,
        accelerator: Accelerator,
        control: Control,
        warmup: HeadWarmup,
        config: PretrainConfig,
    ) -> None:
        """`module` is a `WithObjective` as the accelerator has prepared it."""
        self._warmup, self._encoder_key, self._seed = warmup, config.encoder_key, config.seed
        self._module, self._objective = module, objective
        self._accelerator, self._control = accelerator, control
        self._encoder = accelerator.unwrap_model(module).model.config

    def prepare(self, step: int, instances: Instances) -> Prepared:
        """`instances`, this rank's part of the global batch of `step`, as it is computed. Threads may call it."""
        rows = np.arange(len(instances)) * self._accelerator.num_processes + self._accelerator.process_index
        keys = draws.bits(draws.key("objective", self._seed, step), rows.astype(np.uint64))
        micro = split(instances, keys, micro_batch_size(len(instances)))
        parts, counts = [self._objective.arranged(as_batch(*part)) for part in micro], Counter[str]()
        for part in parts:
            counts.update(self._objective.counts(part))
            counts.update(tokens=part.layout.total, flops=training_flops(self._encoder, part, self._objective))
        return Prepared(parts, counts)

    def compute(self, step: int, prepared: Prepared) -> Computed:
        """Accumulate into the parameters' `grad` over this rank's part of the global batch of `step`.

        `TrainingError` naming `step` where a micro-batch does not fit into the memory.
        """
        accelerator, world = self._accelerator, self._accelerator.num_processes
        counts, tally = self._global_counts(prepared), Tally()
        for index, batch in enumerate(prepared.parts):
            last = index == len(prepared.parts) - 1
            synced = nullcontext() if last else accelerator.no_sync(self._module)
            with explain_out_of_memory(step, self._encoder_key, batch), synced:
                with accelerator.autocast():
                    terms = self._module(batch.to(accelerator.device, non_blocking=True))
                # Over the whole global batch; times the ranks, because their gradients are averaged.
                weights = self._objective.weights
                loss = sum(weights[term] * sums.loss_sum / max(counts[term], 1) for term, sums in terms.items()) * world
                accelerator.backward(loss)
            tally.add(terms)
        self._warmup.drop_gradients(step)
        gradients = [parameter.grad for parameter in self._module.parameters() if parameter.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        whole = norm.full_tensor() if isinstance(norm, DTensor) else norm  # of gradients divided among processes
        return Computed(counts, tally, self._losses(tally, counts), norm, float(whole), self._objective.weights)

    def _losses(self, tally: Tally, counts: dict[str, int]) -> dict[str, float]:
        names = sorted(tally.totals)
        sums = self._control.sum([float(tally.totals[name][0]) for name in names])
        return {name: value / max(counts[name], 1) for name, value in zip(names, sums, strict=True)}

    def _global_counts(self, prepared: Prepared) -> dict[str, int]:
        names = sorted(prepared.counts)
        sums = self._control.sum([prepared.counts[name] for name in names])
        return {name: int(value) for name, value in zip(names, sums, strict=True)}


def as_batch(instances: Instances, keys: draws.U64 | None = None) -> PreTrainingBatch:
    """The tensors of a micro-batch; `keys` (N,) decide what is drawn at random in each sequence."""
    position = np.arange(len(instances.tokens)) - np.repeat(instances.offsets[:-1], instances.lengths)
    drawn = of_sequences = None
    if keys is not None:
        predicted = np.diff(instances.masked_offsets)
        drawn = draws.uniform(np.repeat(keys, predicted), position[instances.masked_positions].astype(np.uint64))
        of_sequences = draws.uniform(keys, np.zeros(len(keys), np.uint64))  # the first token's, which is never masked
    return PreTrainingBatch.from_numpy(
        input_ids=instances.tokens,
        token_type_ids=(position >= np.repeat(instances.segment_a_lengths, instances.lengths)).astype(np.int64),
        lengths=instances.lengths,
        masked_positions=instances.masked_positions,
        masked_labels=instances.masked_labels,
        next_sentence_labels=instances.next_sentence_labels,
        masked_draws=drawn,
        sequence_draws=of_sequences,
    )


def split(instances: Instances, keys: draws.U64, size: int) -> list[tuple[Instances, draws.U64]]:
    """Consecutive parts of at most `size` sequences, with their `keys` (N,)."""
    if size >= len(instances):
        return [(instances, keys)]
    parts = np.split(np.arange(len(instances)), range(size, len(instances), size))
    return [(instances.take(rows), keys[rows]) for rows in parts]


class Feed:
    """Reads one process's parts of the global batches in the background, while steps come one after the other.

    On a GPU they are prepared there, too. On the CPU by who asks for them: torch's threads of the background would take
    the cores from those of the step.
    """

    def __init__(
        self, loader: Loader | Phases, prepare: Callable[[int, Instances], Prepared], accelerator: Accelerator
    ) -> None:
        self._loader, self._prepare, self._accelerator = loader, prepare, accelerator
        self._batches: Iterator[Callable[[], Prepared]] | None = None
        self._next = 0

    def of(self, step: int) -> Prepared:
        """This process's part of the batch of `step`."""
        if self._batches is None or step != self._next:
            self.close()
            self._batches, self._next = prefetch(self._part, step), step
        self._next += 1
        return next(self._batches)()

    def _part(self, step: int) -> Callable[[], Prepared]:
        """What gives it; for the background."""
        place = self._accelerator.process_index, self._accelerator.num_processes
        prepare = partial(self._prepare, step, self._loader.batch(step, *place))
        if self._accelerator.device.type == "cpu":
            return prepare
        prepared = prepare()
        return lambda: prepared

    def close(self) -> None:
        """End the work in the background."""
        if isinstance(self._batches, Generator):
            self._batches.close()
        self._batches = None


def explain_out_of_memory(
    step: int, encoder_key: str, batch: PreTrainingBatch | None = None
) -> AbstractContextManager[None]:
    """Raise a `TrainingError` with the remedy where torch or numpy cannot get the memory for `batch`.

    Without a batch, for the optimizer's state. `encoder_key` is the key of params.yaml that gives the encoder's size.
    """
    what, remedies = "the optimizer's state does", [f"a smaller {encoder_key}"]
    if batch is not None:
        sequences = batch.layout.batch_size
        what = f"{sequences} sequences ({batch.layout.total} tokens) at once do"
        if not activation_checkpointing():
            remedies.insert(0, "BERTCORE_ACTIVATION_CHECKPOINTING=1")
        if sequences > 1:
            remedies.insert(0, f"BERTCORE_MICRO_BATCH below {sequences} (the same global batch, in parts)")
    return explained(f"step {step}: {what}", *remedies)
