"""The pre-training loop: from the last checkpoint to the last step, with its reports, evaluations and checkpoints."""

import copy
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn

from bertcore import draws
from bertcore.instances.sources import InstanceSource
from bertcore.memory import explained
from bertcore.model.encoder import EncoderModule
from bertcore.model.layers import layer_stacks
from bertcore.objectives.cross_entropy import compile_cross_entropy
from bertcore.objectives.pretraining import build_objective
from bertcore.progress import Progress
from bertcore.training.agreement import require_same_step
from bertcore.training.averaging import WeightAverage
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.control import Control
from bertcore.training.divergence import DivergenceGuard, LossWatch, Rows
from bertcore.training.division import check_division
from bertcore.training.eval_pairs import EvalPairs
from bertcore.training.flops import peak_flops
from bertcore.training.head_warmup import HeadWarmup
from bertcore.training.held_out import HeldOut
from bertcore.training.loader import Loader, Phases
from bertcore.training.machine import activation_checkpointing, compiled
from bertcore.training.metrics import History, Timed, silent
from bertcore.training.optimizers import build_optimizer
from bertcore.training.optimizers.groups import set_learning_rate
from bertcore.training.segments import distance_of, keep_distance, segment_rows
from bertcore.training.state import TrainingState, divided, random_state, set_random_state, whole_model
from bertcore.training.step import Computed, Feed, Gradients, WithObjective, explain_out_of_memory
from bertcore.training.supervision import Interrupted, Keeper, Supervision

SECOND_PHASE = "eval_second_phase"
"""Begins the metrics of held-out text at the second phase's length."""


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """What a training reads."""

    batches: Loader | Phases
    """Global batches by step."""
    heldout: Sequence[InstanceSource] = ()
    """Sequences that are only evaluated."""
    heldout_longer: Sequence[InstanceSource] = ()
    """The same text in sequences of the second phase's length, evaluated from its first step on."""
    pairs: EvalPairs = field(default_factory=EvalPairs)
    """Minimal pairs, scored at every evaluation."""
    rows: Rows = lambda step: []
    """Where the sequences of a step come from, for the record of one that diverged."""


class Pretraining:
    """One training run: the model, its data and where it stands."""

    def __init__(
        self,
        config: PretrainConfig,
        model: EncoderModule,
        data: TrainingData,
        accelerator: Accelerator,
        checkpoints: Checkpoints,
        supervision: Supervision | None = None,
        stable: Checkpoints | None = None,
        new_heads: Collection[str] = (),
        published: Path | None = None,
    ) -> None:
        """`stable` holds the ends of stable phases (see `PretrainConfig.decay_share`); `published` is the directory
        that `model` has its weights from, `new_heads` names of its weights that are not there (see
        `head_warmup_steps`)."""
        self._config, self._accelerator = config, accelerator
        self.checkpoints = checkpoints
        self._control, self._interval = Control(accelerator.num_processes), Timed()
        self.model = model
        """The trained model, without its wrappers."""
        self._prepare(new_heads, published)
        supervision, watch = supervision or Supervision(), LossWatch(config.loss_spike)
        history = History(supervision.report if accelerator.is_main_process else silent)
        average = None if config.ema_decay is None else WeightAverage(self._trained, config.ema_decay)
        self.state = TrainingState(
            model=self._trained, optimizer=self._optimizer.optimizer, history=history, watch=watch, average=average
        )
        self._keeper = Keeper(config, self.state, accelerator, self._control, checkpoints, supervision, stable)
        self._guard = DivergenceGuard(
            watch, model, self._control, checkpoints, data.rows, skip=config.skip_on_divergence
        )
        evaluated, key = config.eval_sequences, config.encoder_key
        self._heldout = HeldOut(data.heldout, evaluated, accelerator, self._control, key)
        self._heldout_longer = HeldOut(data.heldout_longer, evaluated, accelerator, self._control, key, SECOND_PHASE)
        self._pairs = data.pairs
        self._pairs.check(model)
        self._feed = Feed(data.batches, self._gradients.prepare, accelerator)
        dtype = torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
        self.peak_flops = peak_flops(accelerator.device, dtype) * accelerator.num_processes
        """FLOP/s that a large matrix product reaches, on all devices together."""

    def _prepare(self, new_heads: Collection[str], published: Path | None) -> None:
        """The model as the processes train it, its optimizer, and what computes its gradients."""
        config, model, accelerator = self._config, self.model, self._accelerator
        new, built = {f"model.{name}" for name in new_heads}, segment_rows(model)
        with torch.random.fork_rng(devices=[]):  # the same initial weights on every rank, and none like the model's
            torch.default_generator.manual_seed(draws.key("objective", config.seed))
            objective = self._objective = build_objective(config.objective, model, config.objective_options)
            if published is not None:
                new |= {f"objective.{name}" for name in objective.load(model, published)}
        self._distance = distance_of(model, config, built)
        self._trained = WithObjective(model, objective)
        stacks = layer_stacks(self._trained)
        for layers in stacks:
            layers.activation_checkpointing = activation_checkpointing()
        if compiled():
            compile_cross_entropy()
            for layers in stacks:
                layers.compile_layers()
        optimizer = build_optimizer(self._trained, config)
        self._module, self._optimizer = accelerator.prepare(self._trained, optimizer)
        check_division(config, accelerator.num_processes, divided(model), bool(objective.companions))
        self._warmup = HeadWarmup(self._trained, new, config, log=accelerator.is_main_process)
        self._gradients = Gradients(self._module, objective, accelerator, self._control, self._warmup, config)

    @property
    def companions(self) -> dict[str, EncoderModule]:
        """The models that are trained beside `model` and saved with it, by their folders."""
        return self._objective.companions

    def whole_models(self) -> dict[str, EncoderModule]:
        """Copies of what the training has made, with all weights on rank 0; every process must ask: the model under an
        empty name, and its companions by their folders.

        The averaged weights, where an average is kept. The training may go on, as if nobody had asked.
        """
        models, average = {"": self.model, **self.companions}, self.state.average
        if divided(self.model):
            whole = {folder: whole_model(model, self._accelerator) for folder, model in models.items()}
        else:
            with nullcontext() if average is None else average.in_place():
                whole = copy.deepcopy(models)  # at once: embeddings that they share stay shared
        if self._distance is not None:
            keep_distance(whole[""], self._distance)
        return whole

    def timing(self) -> dict[str, float]:
        """`tokens_per_second` and `mfu` over `state.timed`."""
        return self._speed(self.state.timed)

    def _speed(self, timed: Timed) -> dict[str, float]:
        return {"tokens_per_second": timed.rate, "mfu": timed.flops / max(timed.seconds, 1e-9) / self.peak_flops}

    def run(self, at_step: Callable[[int], None] | None = None) -> dict[str, float]:
        """Train from the last checkpoint, or the start, to the last step and its checkpoint; the final held-out
        metrics. Who needs them again, because something after it failed, has them without a step.

        `at_step` is called in every process with the number of steps done, after the evaluation that is due there; on
        a resume once more with the steps that are made again.

        `StoppedError` where it was asked to stop: there is a checkpoint then. `TrainingError` where it cannot go on.
        """
        self._control.on_main(self.checkpoints.hold)
        try:
            self.resume()
            self._run(at_step)
            self.keep()
        finally:
            self._feed.close()
            self.checkpoints.release()
        return self.state.history.last("eval/loss")

    def _run(self, at_step: Callable[[int], None] | None) -> None:
        state, last = self.state, self._config.max_steps
        progress = Progress("pretrain", last, state.step, shown=self._accelerator.is_main_process)
        if state.step < last:
            self.settle_order()
        self._keeper.restart_clock()
        while True:
            if self._evaluation_due():
                state.history.add(state.step, self.evaluate())
            if at_step is not None:
                at_step(state.step)
            if state.step == last:
                break
            self._train_and_report()
            self._keeper.save_or_stop()
            progress.advance(self._note())
        progress.close()

    def settle_order(self) -> None:
        """Have more than two processes add whole gradients in one order from the first step of this process on.

        DDP groups the gradients anew after its first backward pass, and rings of three and more add each group in an
        order of its own: without this, the first step after a resume would round otherwise than one among others.
        """
        if self._control.world_size > 2 and not divided(self.model):
            before = random_state()
            self.compute()
            self._optimizer.zero_grad()
            set_random_state(before)

    def _train_and_report(self) -> None:
        state, config = self.state, self._config
        with self._interval.measure():
            self.train_step()
            reported = state.step % config.logging_steps == 0 or state.step == config.max_steps
            metrics = self._train_metrics() if reported else None
        if metrics:
            speed = {f"train/{name}": value for name, value in self._speed(self._interval).items()}
            state.history.add(state.step, metrics | speed)
        if reported:
            state.timed.add(self._interval)
            self._interval = Timed()

    def train_step(self) -> int:
        """One optimizer step on the global batch; the real tokens in it. `TrainingError` where it does not fit.

        A step that diverges is not applied: the training ends, or passes over it (`skip_on_divergence`).
        """
        state = self.state
        if state.step in state.watch.skipped:
            state.step += 1
            return 0
        before = random_state() if self._config.skip_on_divergence else None
        computed = self.compute()
        # The loss and the norm are read before the weights change. The device waits for no more than this one read.
        taken = self._guard.passes(state.step, computed, self.learning_rate())
        if taken:
            self._apply(computed)
        elif before:
            set_random_state(before)
        self._optimizer.zero_grad()
        state.step += 1
        return computed.counts["tokens"] if taken else 0

    def compute(self) -> Computed:
        """The gradients of the next step, not yet applied."""
        return self._gradients.compute(self.state.step, self._feed.of(self.state.step))

    def learning_rate(self) -> float:
        """Of the next step."""
        return self._warmup.learning_rate(self.state.step)

    def _apply(self, computed: Computed) -> None:
        state = self.state
        if (bound := self._config.max_grad_norm) is not None:
            nn.utils.clip_grads_with_norm_(self._module.parameters(), bound, computed.gradient_norm)
        set_learning_rate(self._optimizer, self.learning_rate())
        with explain_out_of_memory(state.step, self._config.encoder_key):
            self._optimizer.step()
        if state.average is not None:
            state.average.update()
        state.norm = computed.norm
        state.tally.merge(computed.tally)
        state.watch.add(computed.loss)
        state.tokens += computed.counts["tokens"]
        self._interval.tokens += computed.counts["tokens"]
        self._interval.flops += computed.counts["flops"]

    def _train_metrics(self) -> dict[str, float]:
        """Means since the last call; nothing where all steps were skipped."""
        metrics = self.state.tally.metrics(self._control, "train", self._objective.weights)
        if metrics:
            metrics["train/gradient_norm"] = self.state.norm
            metrics["train/learning_rate"] = self._optimizer.param_groups[0]["lr"]
        return metrics

    def _note(self) -> str:
        last = self.state.history.last("train/loss")
        return f"loss {last['train/loss']:.3f}  {self.state.timed.rate:,.0f} tokens/s" if last else ""

    def evaluate(self) -> dict[str, float]:
        """Loss and accuracy on held-out text, the same sequences every time; of the average, where there is one."""
        average = self.state.average
        try:
            with nullcontext() if average is None else average.in_place():
                return self._evaluate()
        except Interrupted:
            self._keeper.end()

    def _evaluate(self) -> dict[str, float]:
        step, weights, between = self.state.step, self._objective.weights, self._keeper.interrupt_if_asked
        metrics = self._heldout.evaluate(self._module, weights, step, between)
        if self._config.second_phase is not None and step >= self._config.first_phase_steps:
            metrics |= self._heldout_longer.evaluate(self._module, weights, step, between)
        remedies = ("pretrain.eval_pairs: null", f"a smaller {self._config.encoder_key}")
        with explained(f"step {step}: minimal pairs do", *remedies):
            return metrics | self._pairs.evaluate(self.model, self._control, between)

    def _evaluation_due(self) -> bool:
        """Also at the start from published weights: what they were before they were trained on."""
        step, config = self.state.step, self._config
        untrained = step == 0 and config.init_from is None
        if step != config.max_steps and (untrained or step % config.eval_steps):
            return False
        return not self.state.history.evaluated(step)

    def keep(self) -> None:
        """Write a checkpoint, unless this process went on from the same step; every process must ask."""
        resumed = self.state.resumed_from
        if resumed is None or resumed["step"] != self.state.step:
            self._keeper.save()

    def resume(self, most: int | None = None, *, report: bool = True) -> None:
        """Go on from the last checkpoint (of at most `most` steps), if there is one: its own, or one of the stable
        phase that it has in common with trainings of other lengths.

        What was reported before is reported again, unless `report` is false.
        """
        if (saved := self.checkpoints.latest(most)) is None:
            saved = self._keeper.stable_phase(most)
        require_same_step(self._control, None if saved is None else saved["step"])
        if saved is None:
            return
        self.state.restore(saved, self._accelerator, report=report)
        if self.state.step == self._config.max_steps:
            self.state.timed = Timed(**saved["timed"])
