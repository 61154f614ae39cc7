"""The state of a training: what a checkpoint holds, and what a resumed training goes on with.

Weights and the optimizer's means are whole tensors by name, also where FSDP divides them among the processes.
"""

import logging
from dataclasses import dataclass, field
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from bertcore.model.encoder import EncoderModule
from bertcore.training.averaging import WeightAverage
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.control import Control
from bertcore.training.divergence import LossWatch
from bertcore.training.machine import describe
from bertcore.training.metrics import History, Timed
from bertcore.training.step import Tally

logger = logging.getLogger(__name__)

_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


@dataclass(kw_only=True)
class TrainingState:
    """Where a training stands. Every process has one; rank 0 writes it."""

    model: nn.Module
    """The model that is trained, with all that its objective owns."""
    optimizer: Optimizer
    history: History
    watch: LossWatch
    average: WeightAverage | None = None
    """Of the weights, where one is kept."""
    step: int = 0
    """Optimizer steps done since the start of the training, skipped ones included."""
    tokens: int = 0
    """Real tokens in them."""
    tally: Tally = field(default_factory=Tally)
    """This process's sums since the last point of the curve."""
    norm: float = 0.0
    """Of the last gradient, before it was clipped."""
    timed: Timed = field(default_factory=Timed)
    """Speed over the steps of this process, without evaluation and checkpoints; where all steps were done before it,
    over those of the process that did the last one."""
    resumed_from: dict[str, Any] | None = None
    """`step` and `run_id` of the checkpoint that this process went on from."""

    def save(self, checkpoints: Checkpoints, accelerator: Accelerator, control: Control, run_id: str) -> None:
        """Write a checkpoint; every process must ask. `TrainingError` where it cannot be written."""
        tally = {term: row.cpu() for term, row in self.tally.totals.items()}
        ranks = control.gather({"random": random_state(), "tally": tally, "norm": self.norm})
        content = {
            **whole_state(self.model, self.optimizer),
            "average": None if self.average is None else self.average.state(),
            "ranks": ranks,
            "step": self.step,
            "tokens": self.tokens,
            "watch": self.watch.state(),
            "history": self.history.rows,
            "timed": vars(self.timed),
            "run_id": run_id,
            "machine": describe(accelerator),
        }
        control.on_main(lambda: checkpoints.save(self.step, content))

    def restore(self, saved: dict[str, Any], accelerator: Accelerator, *, report: bool) -> None:
        """Take over what `save` wrote; its history is reported again where `report` is set.

        What belongs to each process (its random generators, its sums) is left as it is where there are more or fewer.
        """
        load_whole_state(self.model, self.optimizer, saved)
        if self.average is not None:
            self.average.restore(saved["average"])
        self.step, self.tokens = saved["step"], saved["tokens"]
        self.watch.restore(saved["watch"])
        self.resumed_from = {"step": self.step, "run_id": saved["run_id"]}
        if accelerator.is_main_process:
            logger.info("going on from the checkpoint of step %d", self.step)
            self._say_what_changed(saved["machine"], describe(accelerator))
        if len(saved["ranks"]) == accelerator.num_processes:
            own = saved["ranks"][accelerator.process_index]
            set_random_state(own["random"])
            self.norm = own["norm"]
            self.tally.totals = {term: row.to(accelerator.device) for term, row in own["tally"].items()}
        self.history.restore(saved["history"], report=report)

    def _say_what_changed(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        for fact, value in now.items():
            if before.get(fact) != value:
                logger.warning(
                    "step %d was saved with %s %s, now it is %s: the training goes on, but not with the same bits",
                    self.step,
                    fact,
                    before.get(fact),
                    value,
                )


def random_state() -> dict[str, Any]:
    """Where the random generators of this process stand: torch's on the CPU and on its GPU."""
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None}


def set_random_state(state: dict[str, Any]) -> None:
    """Where they stood when `random_state` gave `state`."""
    torch.set_rng_state(state["cpu"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def divided(module: nn.Module) -> bool:
    """Whether each process holds a part of every weight only."""
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def whole_state(module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """The tensors of both by name, complete on rank 0; every process must ask where they are divided."""
    if not divided(module):
        return {"model": module.state_dict(), "optimizer": _by_name(module, optimizer)}
    model_state = get_model_state_dict(module, options=_WHOLE)
    if not optimizer.state:  # asked for it, torch would make a step to have one
        return {"model": model_state, "optimizer": None}
    return {"model": model_state, "optimizer": get_optimizer_state_dict(module, optimizer, options=_WHOLE)}


def _by_name(module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """The optimizer's state, in which parameters have their names in `module` in place of numbers."""
    names = {parameter: name for name, parameter in module.named_parameters()}
    order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    state = optimizer.state_dict()
    groups = [{**group, "params": [order[index] for index in group["params"]]} for group in state["param_groups"]]
    return {"state": {order[index]: each for index, each in state["state"].items()}, "param_groups": groups}


def load_whole_state(module: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Take over what `whole_state` gave, whether the weights of that training were divided or not."""
    in_parts = divided(module)
    if in_parts:
        set_model_state_dict(module, state["model"], options=StateDictOptions(full_state_dict=True))
    else:
        module.load_state_dict(state["model"])
    if state["optimizer"] is None:
        return
    if not in_parts:
        optimizer.load_state_dict(state["optimizer"])
        return
    options = StateDictOptions(full_state_dict=True, strict=False)  # weights that had no gradient yet have no state
    set_optimizer_state_dict(module, optimizer, state["optimizer"], options=options)
    saved = state["optimizer"]["state"]
    for name, parameter in module.named_parameters():
        if name not in saved:
            optimizer.state.pop(parameter, None)


def whole_model(model: EncoderModule, accelerator: Accelerator) -> EncoderModule:
    """A copy of a divided `model` with all weights (on rank 0; elsewhere it has none to rely on)."""
    state = get_model_state_dict(model, options=_WHOLE)
    with torch.random.fork_rng(devices=[]):  # what the training draws next stays what it was
        copy = type(model)(model.config)
    if accelerator.is_main_process:
        copy.load_state_dict(state)
    return copy
