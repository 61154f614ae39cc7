"""How fast a training is here and now, from a few real steps of it.

No share of the processor's peak would do: tiny reached 0.09 of it where bfloat16 has units of its own, mini 0.48 where
it has none.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from bertcore import precision
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.layers import layer_stacks
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import OBJECTIVES, build_model, build_objective
from bertcore.training.config import PretrainConfig
from bertcore.training.flops import wait_for
from bertcore.training.launch import launched_processes
from bertcore.training.machine import threads
from bertcore.training.optimizers import build_optimizer
from bertcore.training.step import WithObjective
from tasks.doctor.estimate import Load, sequence_flops

_FEW, _MORE = 1, 4
"""Layers that are measured of a deeper model: between them lies what three cost, local and global attention among them
as in the whole."""
_FEW_BESIDE_A_GENERATOR = 2
"""So that one of half as many layers has another one between them, too."""
_VALUES = {"cpu": 2**20, "cuda": 2**26}
"""States that are computed at once at most: a smaller model needs more tokens until its speed tells anything. On a GPU
few tokens take as long as many."""
_SECONDS = 0.25
"""That are measured, beyond the first turn."""
_LONG = 1.0
"""Seconds of a first turn beside which what it does once is little."""


@dataclass(frozen=True)
class Speed:
    """Of a training, in all its processes."""

    flops: float
    """FLOP/s of the gradients, as `sequence_flops` counts them."""
    update: float
    """Seconds of the optimizer's step, which is the same for a batch of any size."""


def training_speed(config: EncoderConfig, training: PretrainConfig, load: Load) -> Speed:
    """From gradients and updates here and now.

    Masked tokens are predicted, whatever else the objective does, and a discriminator is trained with its generator.
    `load` is what a process computes at once. What the processes wait for each other is not seen.
    """
    if not OBJECTIVES[training.objective].needs_discriminator:
        training = replace(training, objective="mlm", objective_options={})
    (processes, here), before = launched_processes(), torch.get_num_threads()
    sequences = max(min(load.sequences, _VALUES[load.device] // (config.hidden_size * load.length)), 1)
    torch.set_num_threads(threads(here))
    try:
        few = _FEW_BESIDE_A_GENERATOR if OBJECTIVES[training.objective].needs_discriminator else _FEW
        load = replace(load, sequences=sequences)
        gradients, update = _of_depth(config, few, lambda part: _step(part, training, load))
    finally:
        torch.set_num_threads(before)
    flops = processes * sequences * sequence_flops(config, load.length, load.masked, training)
    return Speed(flops / float(gradients), float(update))


def _of_depth(
    config: EncoderConfig, few: int, measure: Callable[[EncoderConfig], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """What `measure` gives, or would from `few` layers and `_MORE`: a deep model is not built."""
    if config.num_hidden_layers <= _MORE:
        return measure(config)
    less, more = (measure(_cut(config, layers)) for layers in (few, _MORE))
    return more + (config.num_hidden_layers - _MORE) * np.maximum(more - less, 0.0) / (_MORE - few)


def _cut(config: EncoderConfig, layers: int) -> EncoderConfig:
    """With so many layers, and no more groups of them that share their weights."""
    groups = getattr(config, "num_hidden_groups", None)
    return replace(config, num_hidden_layers=layers, **({"num_hidden_groups": min(groups, layers)} if groups else {}))


def _step(config: EncoderConfig, training: PretrainConfig, load: Load) -> NDArray[np.float64]:
    """(2,) seconds of the gradients of a process's sequences, and of one update."""
    device = precision.device()
    model = build_model(training.objective, config)
    objective = build_objective(training.objective, model, training.objective_options)
    module = WithObjective(model, objective).to(device).train()
    for layers in layer_stacks(module):
        layers.activation_checkpointing = load.checkpointing
    optimizer, batch = build_optimizer(module, training), _batch(config, load).to(device)

    def gradients() -> None:
        optimizer.zero_grad()
        with precision.autocast(device):
            terms = module(batch)
        sum(each.loss_sum / each.count for each in terms.values()).backward()

    return np.array([_timed(gradients, device), _timed(optimizer.step, device)])


def _batch(config: EncoderConfig, load: Load) -> PreTrainingBatch:
    """Full sequences of tokens drawn at random."""
    source = np.random.default_rng(1)
    first = load.length * np.arange(load.sequences)
    return PreTrainingBatch.from_numpy(
        input_ids=source.integers(config.vocab_size, size=load.tokens),
        token_type_ids=np.zeros(load.tokens, np.int64),
        lengths=np.full(load.sequences, load.length),
        masked_positions=(first[:, None] + np.arange(load.masked)).ravel(),
        masked_labels=source.integers(config.vocab_size, size=load.sequences * load.masked),
        masked_draws=source.random(load.sequences * load.masked),
    )


def _timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of `work`, the least of several turns after a first one, or of that alone if it is long."""
    seconds: list[float] = []
    while sum(seconds[:1]) < _LONG and (len(seconds) < 2 or sum(seconds[1:]) < _SECONDS):
        began = time.perf_counter()
        work()
        wait_for(device)
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:] or seconds)
