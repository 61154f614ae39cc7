"""Section `pretrain` of params.yaml. Nothing about the machine stands in it; see `training.distributed` for that."""

from dataclasses import dataclass, field

from bertcore.config import suggest
from bertcore.errors import ConfigError
from bertcore.model.config import ModelConfig
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.training.optimizers.config import OptimizationConfig


@dataclass(frozen=True, kw_only=True)
class SecondPhase:
    """`pretrain.second_phase`: the last part of the training, on the sequences of `mask.second_phase`."""

    share: float = 0.1
    """Of `max_steps`."""
    batch_size: int | None = None
    """Sequences of one optimizer step; None = as in the first phase."""

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share: found {self.share}, expected a share between 0 and 1, such as 0.1")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size: found {self.batch_size}, expected at least 1, or null")


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(OptimizationConfig):
    """One pre-training run."""

    init_from: str | None = None
    """A Hugging Face BERT directory whose weights and sizes the training starts from; None = random weights."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Shape of the encoder."""
    objective: str = "mlm_nsp"
    """Key of `objectives.pretraining.OBJECTIVES`."""
    batch_size: int = 256
    """Sequences of one optimizer step, over all processes and micro-batches."""
    max_steps: int = 1_000_000
    """Optimizer steps, those of the second phase included."""
    second_phase: SecondPhase | None = None
    """The last steps on longer sequences; None = one length throughout."""
    warmup_steps: int = 10_000
    """Steps in which the learning rate rises linearly from 0 to its peak."""
    logging_steps: int = 20
    """Steps between two points of the curves."""
    eval_steps: int = 200
    """Steps between two evaluations on held-out text; there is always one at the end."""
    eval_sequences: int = 2048
    """Held-out sequences used at most."""
    checkpoint_seconds: int = 120
    """Seconds between two checkpoints."""
    checkpoint_steps: int | None = None
    """Steps between two checkpoints, beside those by the clock; None = by the clock alone."""
    loss_spike: float | None = None
    """A loss above this many times its running mean is a step that diverged; None = only one that is not finite."""
    skip_on_divergence: bool = False
    """Pass over the rows of a step that diverged, instead of ending the training."""
    seed: int = 1
    """Of the initial weights, the dropout and the order of the data."""

    @property
    def first_phase_steps(self) -> int:
        """Steps before the second phase begins; all where there is none."""
        return self.max_steps - (round(self.max_steps * self.second_phase.share) if self.second_phase else 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init_from is not None and self.model.preset is not None:
            raise ValueError(
                f"model.preset: found {self.model.preset!r} beside init_from, expected none: the sizes are those of "
                f"{self.init_from}; set it to null"
            )
        if self.checkpoint_steps is not None and self.checkpoint_steps < 1:
            raise ValueError(f"checkpoint_steps: found {self.checkpoint_steps}, expected at least 1, or null")
        if self.loss_spike is not None and self.loss_spike <= 1:
            raise ValueError(f"loss_spike: found {self.loss_spike}, expected a factor above 1, such as 2.0, or null")
        for name in ("batch_size", "max_steps", "logging_steps", "eval_steps", "eval_sequences", "checkpoint_seconds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        if not 0 <= self.warmup_steps <= self.max_steps:
            raise ValueError(
                f"warmup_steps: found {self.warmup_steps}, expected between 0 and max_steps ({self.max_steps}); "
                "lower it"
            )
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective: found {self.objective!r}; {suggest(self.objective, OBJECTIVES)}")


_BY_ELEMENT = ("adamw", "bert_adam")
"""Optimizers that may see a part of a matrix."""


def check_division(config: PretrainConfig, processes: int, divided: bool) -> None:
    """Raise `ConfigError` where so many processes cannot train the batches, or weights `divided` among them."""
    sizes = {"pretrain.batch_size": config.batch_size}
    if config.second_phase and config.second_phase.batch_size:
        sizes["pretrain.second_phase.batch_size"] = config.second_phase.batch_size
    for name, size in sizes.items():
        if size < processes:
            raise ConfigError(
                f"{name}: found {size} for {processes} processes, expected a sequence for each; raise it, or start "
                "fewer (BERTCORE_PROCESSES)"
            )
        if divided and size % processes:
            raise ConfigError(
                f"{name}: found {size} for {processes} processes that divide the weights, expected a multiple: all "
                "must make the same number of passes"
            )
    if divided and config.optimizer not in _BY_ELEMENT:
        raise ConfigError(
            f"pretrain.optimizer: found {config.optimizer}, expected {' or '.join(_BY_ELEMENT)} where the processes "
            "divide the weights: it looks at whole matrices; change it, or take infra/accelerate/gpus.yaml"
        )
