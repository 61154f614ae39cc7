"""The pre-training loop: what one optimizer step is, and when it is reported, evaluated and kept."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch import nn

from bertcore.data.instances import Instances, InstanceSource
from bertcore.data.loader import Loader, Phases
from bertcore.errors import TrainingError
from bertcore.model.bert import BertForPreTraining
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import OBJECTIVES, Objective
from bertcore.objectives.sums import Sums
from bertcore.progress import Progress
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.distributed import activation_checkpointing, compiled, micro_batch_size
from bertcore.training.flops import peak_flops, training_flops
from bertcore.training.optimizers import build_optimizer
from bertcore.training.schedule import SCHEDULES

logger = logging.getLogger(__name__)

_EVAL_BATCH = 64
"""Sequences of a batch that is only evaluated."""

Report = Callable[[int, dict[str, float]], None]
"""Called on rank 0 with the number of finished steps and the metrics by their MLflow names."""


def as_batch(instances: Instances) -> PreTrainingBatch:
    """The tensors of a micro-batch."""
    position = np.arange(len(instances.tokens)) - np.repeat(instances.offsets[:-1], instances.lengths)
    return PreTrainingBatch.from_numpy(
        input_ids=instances.tokens,
        token_type_ids=(position >= np.repeat(instances.segment_a_lengths, instances.lengths)).astype(np.int64),
        lengths=instances.lengths,
        masked_positions=instances.masked_positions,
        masked_labels=instances.masked_labels,
        next_sentence_labels=instances.next_sentence_labels,
    )


def split(instances: Instances, size: int) -> list[Instances]:
    """Consecutive parts of at most `size` sequences."""
    if size >= len(instances):
        return [instances]
    rows = np.arange(len(instances))
    return [instances.take(rows[start : start + size]) for start in range(0, len(rows), size)]


@dataclass
class Tally:
    """Sums of an objective's terms over micro-batches, kept on the device until they are asked for."""

    totals: dict[str, torch.Tensor] = field(default_factory=dict)
    """term -> (3,) float64: summed loss, right predictions, predictions."""

    def add(self, term: str, loss_sum: torch.Tensor, correct: torch.Tensor, count: int) -> None:
        row = torch.stack([loss_sum.detach().double(), correct.double(), torch.full_like(loss_sum, count).double()])
        self.totals[term] = self.totals[term] + row if term in self.totals else row

    def metrics(self, accelerator: Accelerator, prefix: str) -> dict[str, float]:
        """Mean loss and accuracy of every term over all ranks, and the total loss; the sums start anew."""
        result: dict[str, float] = {}
        for term, row in sorted(self.totals.items()):
            loss_sum, correct, count = accelerator.reduce(row, "sum").tolist()
            result[f"{prefix}/{term}_loss"] = loss_sum / max(count, 1)
            result[f"{prefix}/{term}_accuracy"] = correct / max(count, 1)
        self.totals.clear()
        return {f"{prefix}/loss": sum(value for name, value in result.items() if name.endswith("_loss")), **result}


@dataclass
class Timed:
    """Work, and the seconds it took."""

    tokens: int = 0
    flops: int = 0
    """Of the model; see `training.flops`."""
    seconds: float = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    def add(self, other: "Timed") -> None:
        self.tokens += other.tokens
        self.flops += other.flops
        self.seconds += other.seconds

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds if self.seconds else 0.0


class _WithObjective(nn.Module):
    """The forward pass up to the sums of the loss: wrappers that convert outputs never see the logits."""

    def __init__(self, model: BertForPreTraining, objective: Objective) -> None:
        super().__init__()
        self.model, self._objective = model, objective

    def forward(self, batch: PreTrainingBatch) -> dict[str, Sums]:
        return self._objective(self.model, batch)


class Pretraining:
    """One training run: the model, its data and where it stands."""

    def __init__(
        self,
        config: PretrainConfig,
        model: BertForPreTraining,
        loader: Loader | Phases,
        heldout: Sequence[InstanceSource],
        accelerator: Accelerator,
        checkpoints: Checkpoints,
        report: Report,
    ) -> None:
        self._config, self._loader, self._heldout, self._accelerator = config, loader, heldout, accelerator
        self._checkpoints, self._report = checkpoints, report
        self._objective = OBJECTIVES[config.objective]
        self._schedule = SCHEDULES[config.schedule]
        self._objective.freeze_unused(model)
        model.bert.encoder.activation_checkpointing = activation_checkpointing()
        if compiled():
            model.bert.encoder.compile_layers()
        optimizer = build_optimizer(model, config)
        self.model = model
        """The trained model, without its wrappers."""
        self._module, self._optimizer = accelerator.prepare(_WithObjective(model, self._objective), optimizer)
        self._tally = Tally()
        self._norm = torch.zeros((), device=accelerator.device)
        self.curves: list[dict[str, float]] = []
        """What was reported, by step; without what depends on the machine."""
        self.step = self.tokens = 0
        """Done so far, since the start of the training."""
        self._interval, self._timed = Timed(), Timed()
        dtype = torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
        self.peak_flops = peak_flops(accelerator.device, dtype) * accelerator.num_processes
        """FLOP/s that a large matrix product reaches, on all devices together."""

    def timing(self) -> dict[str, float]:
        """Speed over the steps of this process, without evaluation and checkpoints."""
        return self._speed(self._timed)

    def _speed(self, timed: Timed) -> dict[str, float]:
        return {"tokens_per_second": timed.rate, "mfu": timed.flops / max(timed.seconds, 1e-9) / self.peak_flops}

    def run(self) -> dict[str, float]:
        """Train from the last checkpoint, or the start, to the last step; the final held-out metrics."""
        self._resume()
        config = self._config
        progress = Progress("pretrain", config.max_steps, self.step, shown=self._accelerator.is_main_process)
        last_checkpoint = time.monotonic()
        while self.step < config.max_steps:
            with self._interval.measure():
                self.train_step()
                logged = self.step % config.logging_steps == 0 or self.step == config.max_steps
                metrics = self._train_metrics() if logged else None
            if metrics:
                self._record(metrics, {f"train/{name}": value for name, value in self._speed(self._interval).items()})
                self._timed.add(self._interval)
                self._interval = Timed()
            if self.step % config.eval_steps == 0 and self.step < config.max_steps:
                self._record(self.evaluate())
            if self._agree(time.monotonic() - last_checkpoint > config.checkpoint_seconds):
                self._save()
                last_checkpoint = time.monotonic()
            progress.advance(self._note())
        progress.close()
        final = self.evaluate()
        self._record(final)
        return final

    def evaluate(self) -> dict[str, float]:
        """Loss and accuracy on held-out text, the same sequences every time."""
        self._module.eval()
        tally, rank, world = Tally(), self._accelerator.process_index, self._accelerator.num_processes
        left = self._config.eval_sequences
        for source in self._heldout:
            rows = np.arange(min(len(source), left))
            left -= len(rows)
            for instances in split(source.take(rows[rank::world]), _EVAL_BATCH) if len(rows) > rank else []:
                batch = as_batch(instances).to(self._accelerator.device)
                with torch.no_grad(), self._accelerator.autocast():
                    for term, sums in self._objective(self.model, batch).items():
                        tally.add(term, sums.loss_sum, sums.correct, sums.count)
        self._module.train()
        return tally.metrics(self._accelerator, "eval")

    def train_step(self) -> int:
        """One optimizer step on the global batch; the real tokens in it. `TrainingError` where it does not fit."""
        accelerator, world = self._accelerator, self._accelerator.num_processes
        instances = self._loader.batch(self.step, accelerator.process_index, world)
        parts = [as_batch(part).to(accelerator.device) for part in split(instances, micro_batch_size(len(instances)))]
        counts = self._global_counts(parts)
        for group in self._optimizer.param_groups:
            group["lr"] = self._learning_rate()
        for index, batch in enumerate(parts):
            last = index == len(parts) - 1
            with self._memory(batch), nullcontext() if last else accelerator.no_sync(self._module):
                with accelerator.autocast():
                    terms = self._module(batch)
                # Over the whole global batch; times the ranks, because their gradients are averaged.
                loss = sum(sums.loss_sum / counts[term] for term, sums in terms.items()) * world
                accelerator.backward(loss)
            for term, sums in terms.items():
                self._tally.add(term, sums.loss_sum, sums.correct, sums.count)
        bound = self._config.max_grad_norm
        self._norm = accelerator.clip_grad_norm_(self._module.parameters(), float("inf") if bound is None else bound)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.step += 1
        self.tokens += counts["tokens"]
        self._interval.tokens += counts["tokens"]
        self._interval.flops += counts["flops"]
        return counts["tokens"]

    @contextmanager
    def _memory(self, batch: PreTrainingBatch) -> Iterator[None]:
        try:
            yield
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
                raise
            sequences = batch.layout.batch_size
            raise TrainingError(
                f"step {self.step}: {sequences} sequences ({batch.layout.total} tokens) at once do not fit into the memory "
                f"of the {self._accelerator.device.type}; set BERTCORE_MICRO_BATCH below {sequences} (same result, in "
                "parts) or BERTCORE_ACTIVATION_CHECKPOINTING=1"
            ) from error

    def _global_counts(self, parts: list[PreTrainingBatch]) -> dict[str, int]:
        """Predictions of every term, tokens and FLOPs in the global batch."""
        local = Counter[str]()
        for part in parts:
            local.update(self._objective.counts(part))
            local.update(tokens=part.layout.total, flops=training_flops(self.model.config, part))
        names = sorted(local)
        values = torch.tensor([local[name] for name in names], device=self._accelerator.device)
        if self._accelerator.num_processes > 1:
            values = self._accelerator.reduce(values, "sum")
        return dict(zip(names, values.tolist(), strict=True))

    def _learning_rate(self) -> float:
        config = self._config
        return config.learning_rate * self._schedule(self.step, config.warmup_steps, config.max_steps)

    def _train_metrics(self) -> dict[str, float]:
        """Means since the last call; reading them waits for the device."""
        metrics = self._tally.metrics(self._accelerator, "train")
        metrics["train/gradient_norm"] = float(self._norm)
        metrics["train/learning_rate"] = self._optimizer.param_groups[0]["lr"]
        if not np.isfinite([metrics["train/loss"], metrics["train/gradient_norm"]]).all():
            raise TrainingError(
                f"step {self.step}: found loss {metrics['train/loss']} and gradient norm "
                f"{metrics['train/gradient_norm']}, "
                "expected finite numbers; lower pretrain.learning_rate or lengthen pretrain.warmup_steps"
            )
        return metrics

    def _record(self, metrics: dict[str, float], timing: dict[str, float] | None = None) -> None:
        self.curves.append({"step": self.step, **metrics})
        if self._accelerator.is_main_process:
            self._report(self.step, {**metrics, **(timing or {})})

    def _note(self) -> str:
        last = next((row for row in reversed(self.curves) if "train/loss" in row), None)
        if last is None:
            return ""
        return f"loss {last['train/loss']:.3f}  {self._timed.rate:,.0f} tokens/s"

    def _agree(self, wanted: bool) -> bool:
        """Rank 0 decides: its clock is the one that counts."""
        if self._accelerator.num_processes == 1:
            return wanted
        return broadcast_object_list([wanted])[0]

    def _save(self) -> None:
        tally = {term: row.cpu() for term, row in self._tally.totals.items()}
        ranks = gather_object([{"random": _random_state(), "tally": tally}])
        if self._accelerator.is_main_process:
            state = {
                "model": self.model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "ranks": ranks,
                "step": self.step,
                "tokens": self.tokens,
                "curves": self.curves,
            }
            self._checkpoints.save(self.step, state)
        self._accelerator.wait_for_everyone()

    def _resume(self) -> None:
        state = self._checkpoints.latest()
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step, self.tokens, self.curves = state["step"], state["tokens"], state["curves"]
        if len(state["ranks"]) == self._accelerator.num_processes:
            own = state["ranks"][self._accelerator.process_index]
            _set_random_state(own["random"])
            self._tally.totals = {term: row.to(self._accelerator.device) for term, row in own["tally"].items()}
        else:
            logger.warning(
                "step %d was saved by %d processes, now there are %d: the training goes on, but not with the same bits",
                self.step,
                len(state["ranks"]),
                self._accelerator.num_processes,
            )
        if self._accelerator.is_main_process:
            for row in self.curves:
                self._report(int(row["step"]), {name: value for name, value in row.items() if name != "step"})


def _random_state() -> dict[str, Any]:
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None}


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["cpu"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
