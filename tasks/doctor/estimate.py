"""What a training will need, from the shapes alone: memory of a process, and floating-point operations of a sequence.

The memory of activations is counted value by value, as `bertcore.model` keeps them for the backward pass. On the CPU
the tests hold it against real trainings.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bertcore.model.config import build_pretraining
from bertcore.model.encoder import Encoder
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.group_attention import kept_of_a_query
from bertcore.model.layers import EncoderLayer
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.objective import Objective
from bertcore.objectives.pretraining import build_model, build_objective
from bertcore.training.config import PretrainConfig
from bertcore.training.flops import forward_flops, training_flops
from bertcore.training.step import WithObjective

_FLOAT = 4
_CPU_HEAP = 1.05
"""What the heap grows by for each byte of activations in it: 0.9 to 1.15 measured with tiny and mini."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one process computes at once. All sequences count as full: shorter ones need less."""

    sequences: int
    """In the micro-batch."""
    length: int
    """Tokens of a sequence."""
    masked: int
    """Predicted tokens of a sequence."""
    device: str = "cpu"
    """`cpu` or `cuda`."""
    precision: str = "no"
    """`bf16` or `no` (float32), as `bertcore.precision` says."""
    checkpointing: bool = False
    """Whether activations are computed again in the backward pass."""

    @property
    def tokens(self) -> int:
        """In the micro-batch."""
        return self.sequences * self.length

    @property
    def value_bytes(self) -> int:
        """Of a value that a matrix product makes."""
        return 2 if self.precision == "bf16" else _FLOAT


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """How many a training has, those of models that the objective adds among them."""

    total: int
    hidden_matrices: int
    """In the matrices of the encoder layers, for which muon keeps one value each instead of two."""
    encoders: list[EncoderConfig]
    """The shapes of all encoders that a step passes through and trains."""
    frozen: int = 0
    """In a teacher, which is in memory and in no checkpoint."""


@dataclass(frozen=True, kw_only=True)
class MemoryNeed:
    """Bytes that one training process holds at its peak, beside the interpreter and its libraries."""

    weights: int
    """Parameters, gradients and the optimizer's state, in float32; those of a teacher, too."""
    passing: int
    """The most that is there for a while: activations, or what the optimizer computes a step with."""

    @property
    def total(self) -> int:
        return self.weights + self.passing


def parameters(config: EncoderConfig, training: PretrainConfig | None = None) -> Parameters:
    """Those of the model for pre-training, which is built without memory; of its objective too, where `training` is
    given."""
    return _count(*_built(config, training))


def _count(module: nn.Module, objective: Objective | None) -> Parameters:
    layers = [each for each in module.modules() if isinstance(each, EncoderLayer)]
    teacher = objective.teacher if objective else None
    return Parameters(
        total=sum(each.numel() for each in module.parameters()),
        hidden_matrices=sum(each.numel() for layer in layers for each in layer.parameters() if each.ndim == 2),
        encoders=[each.config for each in module.modules() if isinstance(each, Encoder)],
        frozen=teacher.num_parameters() if teacher else 0,
    )


def _built(config: EncoderConfig, training: PretrainConfig | None) -> tuple[nn.Module, Objective | None]:
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a teacher has its shape here, and not its weights
        if training is None:
            return build_pretraining(config), None
        model = build_model(training.objective, config)
        objective = build_objective(training.objective, model, training.objective_options)
        return WithObjective(model, objective), objective


def state_bytes(count: Parameters, optimizer: str, *, averaged: bool = False) -> int:
    """What a checkpoint holds: the parameters, the optimizer's means of gradients and of their squares, and where the
    weights are `averaged` their mean."""
    single = count.hidden_matrices if optimizer == "muon" else 0
    return _FLOAT * ((4 if averaged else 3) * count.total - single)


def training_memory(
    config: EncoderConfig, load: Load, optimizer: str, training: PretrainConfig | None = None
) -> MemoryNeed:
    """Of one process that holds the whole model (divided among processes, weights need less), and what the objective of
    `training` adds to it."""
    module, objective = _built(config, training)
    count = _count(module, objective)
    gradients = _FLOAT * count.total
    steps = {"muon": 2 * count.hidden_matrices, "lamb": count.total}.get(optimizer, 0)
    masked = load.sequences * load.masked
    logit_rows = objective.logit_rows(load.tokens, masked) if objective else masked
    last_layer = objective is not None and objective.of_every_token
    passing = max(_activations(config, load, count, logit_rows, last_layer), _FLOAT * steps)
    state = state_bytes(count, optimizer, averaged=training is not None and training.ema_decay is not None)
    return MemoryNeed(weights=state + gradients + _FLOAT * count.frozen, passing=passing)


def _activations(config: EncoderConfig, load: Load, count: Parameters, logit_rows: int, last_layer: bool) -> int:
    """Where the backward pass has left the last layer, which keeps little, and makes the gradients of the one below; or
    where it makes those of the `last_layer`, if that is kept whole.

    A teacher keeps nothing; what it computes with for a while is less than what the backward pass does.
    """
    copied = count.total + count.frozen if load.precision == "bf16" else 0  # autocast's copies of the weights
    rounded = copied * load.value_bytes
    kept = sum(_encoder_bytes(each, load) for each in count.encoders) + rounded
    kept += _head_bytes(config, load, logit_rows)
    if last_layer and not load.checkpointing:  # which computes one layer again, whichever it is
        kept += load.tokens * _layer_bytes(config, load, config.num_hidden_layers - 1)
    return round(kept * _CPU_HEAP) if load.device == "cpu" else kept


def _encoder_bytes(config: EncoderConfig, load: Load) -> int:
    layers = [load.tokens * _layer_bytes(config, load, index) for index in range(config.num_hidden_layers)]
    residual = load.tokens * config.hidden_size * _FLOAT
    recomputed = config.num_hidden_layers * residual + 2 * max(layers)
    return (recomputed if load.checkpointing else sum(layers)) + 2 * residual


def _layer_bytes(config: EncoderConfig, load: Load, index: int) -> int:
    """Kept of one token in the layer `index`, counted from 0."""
    width, size = config.hidden_size, load.value_bytes
    hidden_dropout, attention_dropout = config.dropouts
    normed = 2 * width * _FLOAT  # the inputs of both layer norms, sums in float32
    products = (6 * width + config.kept_inner) * size  # inputs of all products, 1 + 3 + 1 + 1, and of the activation
    dropped = 2 * width if hidden_dropout else 0
    if config.scores_distances:
        kept = load.length
    elif load.device == "cuda":
        return normed + products + width * size + dropped
    else:
        kept = kept_of_a_query(load.length, config.positions(index), attention_dropout)
    weights = config.num_attention_heads * kept * size
    return normed + products + dropped + weights * (2 if attention_dropout else 1)


def _head_bytes(config: EncoderConfig, load: Load, rows: int) -> int:
    """Of the masked-token head: its logits, and on a GPU their float32 copy with its gradient."""
    copies = 2 * _FLOAT if load.device == "cuda" else 0
    return rows * (config.vocab_size * (load.value_bytes + copies) + 6 * config.hidden_size * _FLOAT)


def sequence_flops(
    config: EncoderConfig, length: int, masked: int, training: PretrainConfig | None = None, *, backward: bool = True
) -> int:
    """Of one forward pass, and a `backward` one, over one sequence of `length` tokens, `masked` of them predicted; with
    what the objective of `training` adds, a teacher's forward pass among it."""
    _, objective = _built(config, training)
    if objective and backward:
        masked = objective.predictions(length, masked)
    batch = PreTrainingBatch.from_numpy(
        input_ids=np.zeros(length, np.int64),
        token_type_ids=np.zeros(length, np.int64),
        lengths=np.array([length]),
        masked_positions=np.arange(masked),
        masked_labels=np.zeros(masked, np.int64),
    )
    return (training_flops if backward else forward_flops)(config, batch, objective)
