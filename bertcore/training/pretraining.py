"""The pre-training loop: what one optimizer step is, and when it is reported, evaluated and kept."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

from bertcore.errors import StoppedError, TrainingError
from bertcore.instances.sources import InstanceSource
from bertcore.model.bert import BertForPreTraining
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.progress import Progress
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.control import Control
from bertcore.training.distributed import activation_checkpointing, compiled, describe
from bertcore.training.divergence import MOST_SKIPPED, FlightRecord, LossWatch, gradient_norms
from bertcore.training.division import check_division
from bertcore.training.flops import peak_flops
from bertcore.training.held_out import HeldOut
from bertcore.training.history import History, Report, silent
from bertcore.training.loader import Loader, Phases
from bertcore.training.metrics import Tally, Timed
from bertcore.training.micro_batches import Feed
from bertcore.training.optimizers import build_optimizer
from bertcore.training.randomness import random_state, set_random_state
from bertcore.training.schedule import SCHEDULES
from bertcore.training.step import Computed, Gradients, WithObjective, fitting
from bertcore.training.stopping import StopRequest
from bertcore.training.weights import divided, load_whole_state, whole_model, whole_state

logger = logging.getLogger(__name__)

Rows = Callable[[int], list[dict[str, Any]]]
"""A step -> where the sequences of its global batch come from; see `training.origin`."""


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
        *,
        stop: StopRequest | None = None,
        rows: Rows = lambda step: [],
        run_id: str = "",
    ) -> None:
        """`run_id` is where the reports go; a checkpoint says it."""
        self._config, self._accelerator, self._checkpoints = config, accelerator, checkpoints
        self._rows, self._run_id, self._stop = rows, run_id, stop or StopRequest()
        self._control = Control(accelerator.num_processes)
        self._heldout = HeldOut(heldout, config.eval_sequences, accelerator, self._control)
        self._history = History(report if accelerator.is_main_process else silent)
        self._objective = OBJECTIVES[config.objective]
        self._schedule = SCHEDULES[config.schedule]
        self._objective.freeze_unused(model)
        model.bert.encoder.activation_checkpointing = activation_checkpointing()
        if compiled():
            model.bert.encoder.compile_layers()
        optimizer = build_optimizer(model, config)
        self.model = model
        """The trained model, without its wrappers."""
        self._module, self._optimizer = accelerator.prepare(WithObjective(model, self._objective), optimizer)
        check_division(config, accelerator.num_processes, divided(model))
        self._gradients = Gradients(self._module, self._objective, accelerator, self._control)
        self._feed = Feed(loader, accelerator.process_index, accelerator.num_processes)
        self._tally, self._watch = Tally(), LossWatch(config.loss_spike)
        self._norm = 0.0
        self.step = self.tokens = 0
        """Done so far, since the start of the training."""
        self.skipped: list[int] = []
        """Steps that were passed over because they diverged."""
        self.resumed_from: dict[str, Any] | None = None
        """`step` and `run_id` of the checkpoint that this process went on from."""
        self._interval, self._timed, self._saved = Timed(), Timed(), time.monotonic()
        dtype = torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
        self.peak_flops = peak_flops(accelerator.device, dtype) * accelerator.num_processes
        """FLOP/s that a large matrix product reaches, on all devices together."""

    def whole_model(self) -> BertForPreTraining:
        """The trained model with all its weights on rank 0; every process must ask."""
        return whole_model(self.model, self._accelerator)

    @property
    def curves(self) -> list[dict[str, float]]:
        """What was reported, by step; without what depends on the machine."""
        return self._history.curves

    def timing(self) -> dict[str, float]:
        """Speed over the steps of this process, without evaluation and checkpoints; where all steps were done before
        it, over those of the process that did the last one."""
        return self._speed(self._timed)

    def _speed(self, timed: Timed) -> dict[str, float]:
        return {"tokens_per_second": timed.rate, "mfu": timed.flops / max(timed.seconds, 1e-9) / self.peak_flops}

    def run(self) -> dict[str, float]:
        """Train from the last checkpoint, or the start, to the last step; the final held-out metrics.

        `StoppedError` where it was asked to stop: there is a checkpoint then. `TrainingError` where it cannot go on.
        """
        self._main_only(self._checkpoints.hold)
        try:
            self.resume()
            return self._run()
        finally:
            self._feed.close()
            self._checkpoints.release()

    def _run(self) -> dict[str, float]:
        config = self._config
        progress = Progress("pretrain", config.max_steps, self.step, shown=self._accelerator.is_main_process)
        self._saved = time.monotonic()
        while True:
            if self._evaluation_due():
                self._history.add(self.step, self.evaluate())
            if self.step == config.max_steps:
                break
            self._train_and_log()
            self._keep_or_stop()
            progress.advance(self._note())
        progress.close()
        return self._history.last("eval/loss")

    def _train_and_log(self) -> None:
        config = self._config
        with self._interval.measure():
            self.train_step()
            logged = self.step % config.logging_steps == 0 or self.step == config.max_steps
            metrics = self._train_metrics() if logged else None
        if metrics:
            speed = {f"train/{name}": value for name, value in self._speed(self._interval).items()}
            self._history.add(self.step, metrics | speed)
        if logged:
            self._timed.add(self._interval)
            self._interval = Timed()

    def _evaluation_due(self) -> bool:
        if self.step != self._config.max_steps and (self.step == 0 or self.step % self._config.eval_steps):
            return False
        return not self._history.evaluated(self.step)

    def _keep_or_stop(self) -> None:
        """A checkpoint, where one is due by rank 0's clock or by the steps; the end, where it was asked for."""
        config, main = self._config, self._accelerator.is_main_process
        timed = main and time.monotonic() - self._saved > config.checkpoint_seconds
        stop, due = self._control.sum([self._stop.requested, timed])
        counted = config.checkpoint_steps is not None and self.step % config.checkpoint_steps == 0
        if stop:
            self._end_here()
        if due or counted:
            self._save()

    def _end_here(self) -> None:
        self._save()
        raise StoppedError(
            f"at step {self.step} of {self._config.max_steps}, with a checkpoint in {self._checkpoints.directory}; run "
            "the same command again (`dvc repro`, `make pretrain`) to go on from there"
        )

    def evaluate(self) -> dict[str, float]:
        """Loss and accuracy on held-out text, the same sequences every time."""
        return self._heldout.evaluate(self._module, self.step, self._end_if_asked)

    def _end_if_asked(self) -> None:
        if self._control.any(self._stop.requested):
            self._end_here()

    def train_step(self) -> int:
        """One optimizer step on the global batch; the real tokens in it. `TrainingError` where it does not fit.

        A step that diverges is not applied: the training ends, or passes over it (`skip_on_divergence`).
        """
        if self.step in self.skipped:
            self.step += 1
            return 0
        before = random_state() if self._config.skip_on_divergence else None
        computed = self.compute()
        # The loss and the norm are read before the weights change. The device waits for no more than this one read.
        problem = self._watch.problem(computed.loss, computed.norm)
        if problem is not None:
            self._diverged(problem, computed)
            assert before is not None
            set_random_state(before)
        else:
            self._apply(computed)
        self._optimizer.zero_grad()
        self.step += 1
        return 0 if problem else computed.counts["tokens"]

    def compute(self) -> Computed:
        """The gradients of the next step, not yet applied."""
        return self._gradients.compute(self.step, self._feed.of(self.step))

    def _apply(self, computed: Computed) -> None:
        if (bound := self._config.max_grad_norm) is not None:
            nn.utils.clip_grads_with_norm_(self._module.parameters(), bound, computed.gradient_norm)
        for group in self._optimizer.param_groups:
            group["lr"] = self._learning_rate()
        with fitting(self.step):
            self._optimizer.step()
        self._norm = computed.norm
        self._tally.merge(computed.tally)
        self._watch.add(computed.loss)
        self.tokens += computed.counts["tokens"]
        self._interval.tokens += computed.counts["tokens"]
        self._interval.flops += computed.counts["flops"]

    def _diverged(self, problem: str, computed: Computed) -> None:
        """Write the flight record; `TrainingError` unless the step is to be passed over."""
        record = FlightRecord(
            step=self.step,
            reason=problem,
            learning_rate=self._learning_rate(),
            loss=computed.loss,
            loss_terms=computed.losses,
            running_mean=self._watch.mean,
            gradient_norm=computed.norm,
            gradient_norms=gradient_norms(self.model),
            rows=self._rows(self.step) if self._accelerator.is_main_process else [],
            checkpoint_step=self._checkpoints.latest_step(),
            world_size=self._accelerator.num_processes,
            skipped=list(self.skipped),
        )
        path = record.path(self._checkpoints.directory)
        self._main_only(lambda: record.write(path))
        story = f"step {self.step}: {problem}; the flight record is {path} (`python -m tasks.training.replay {path}`)"
        if not self._config.skip_on_divergence:
            raise TrainingError(
                f"{story}; lower pretrain.learning_rate, lengthen pretrain.warmup_steps or set "
                "pretrain.skip_on_divergence: true"
            )
        self.skipped.append(self.step)
        if self.skipped[-MOST_SKIPPED:] == list(range(self.step - MOST_SKIPPED + 1, self.step + 1)):
            raise TrainingError(
                f"{story}; {MOST_SKIPPED} steps in a row: it is not the data; lower pretrain.learning_rate"
            )
        logger.warning("%s; the step is skipped", story)

    def _learning_rate(self) -> float:
        config = self._config
        return config.learning_rate * self._schedule(self.step, config.warmup_steps, config.max_steps)

    def _train_metrics(self) -> dict[str, float]:
        """Means since the last call; nothing where all steps were skipped."""
        metrics = self._tally.metrics(self._control, "train")
        if metrics:
            metrics["train/gradient_norm"] = self._norm
            metrics["train/learning_rate"] = self._optimizer.param_groups[0]["lr"]
        return metrics

    def _note(self) -> str:
        last = self._history.last("train/loss")
        return f"loss {last['train/loss']:.3f}  {self._timed.rate:,.0f} tokens/s" if last else ""

    def _main_only(self, work: Callable[[], object]) -> None:
        """Do `work` on rank 0; its `TrainingError` is raised in every process, so that none waits for another."""
        problem = ""
        if self._accelerator.is_main_process:
            try:
                work()
            except TrainingError as error:
                problem = str(error)
        if problem := "".join(self._control.gather(problem)):
            raise TrainingError(problem)

    def _save(self) -> None:
        tally = {term: row.cpu() for term, row in self._tally.totals.items()}
        ranks = self._control.gather({"random": random_state(), "tally": tally, "norm": self._norm})
        state = {
            **whole_state(self.model, self._optimizer.optimizer),
            "ranks": ranks,
            "step": self.step,
            "tokens": self.tokens,
            "skipped": self.skipped,
            "watch": self._watch.state(),
            "history": self._history.rows,
            "timed": vars(self._timed),
            "run_id": self._run_id,
            "machine": describe(self._accelerator),
        }
        self._main_only(lambda: self._checkpoints.save(self.step, state))
        self._saved = time.monotonic()

    def keep(self) -> None:
        """Write a checkpoint, unless this process went on from the same step; every process must ask."""
        if self.resumed_from is None or self.resumed_from["step"] != self.step:
            self._save()

    def resume(self, latest: int | None = None, *, report: bool = True) -> None:
        """Go on from the last checkpoint (of at most `latest` steps), if there is one.

        What was reported before is reported again, unless `report` is false.
        """
        state = self._checkpoints.latest(latest)
        if state is None:
            return
        load_whole_state(self.model, self._optimizer.optimizer, state)
        self.step, self.tokens, self.skipped = state["step"], state["tokens"], state["skipped"]
        self._watch.restore(state["watch"])
        self.resumed_from = {"step": self.step, "run_id": state["run_id"]}
        if self.step == self._config.max_steps:
            self._timed = Timed(**state["timed"])
        rank, main = self._accelerator.process_index, self._accelerator.is_main_process
        if main:
            logger.info("going on from the checkpoint of step %d", self.step)
            self._say_what_changed(state["machine"])
        if len(state["ranks"]) == self._accelerator.num_processes:
            own = state["ranks"][rank]
            set_random_state(own["random"])
            self._norm = own["norm"]
            self._tally.totals = {term: row.to(self._accelerator.device) for term, row in own["tally"].items()}
        self._history.restore(state["history"], report=report)

    def _say_what_changed(self, before: dict[str, Any]) -> None:
        for fact, now in describe(self._accelerator).items():
            if before.get(fact) != now:
                logger.warning(
                    "step %d was saved with %s %s, now it is %s: the training goes on, but not with the same bits",
                    self.step,
                    fact,
                    before.get(fact),
                    now,
                )
