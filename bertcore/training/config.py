"""Section `pretrain` of params.yaml. Nothing about the machine stands in it; see `training.distributed` for that."""

from dataclasses import dataclass, field

from bertcore.config import suggest
from bertcore.model.config import ModelConfig
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.training.optimizer import OPTIMIZERS
from bertcore.training.schedule import SCHEDULES


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """One pre-training run."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """Shape of the encoder."""
    objective: str = "mlm_nsp"
    """Key of `objectives.pretraining.OBJECTIVES`."""
    batch_size: int = 256
    """Sequences of one optimizer step, over all processes and micro-batches."""
    max_steps: int = 1_000_000
    """Optimizer steps."""
    learning_rate: float = 1e-4
    """Peak of the schedule."""
    warmup_steps: int = 10_000
    """Steps in which the learning rate rises linearly from 0 to its peak."""
    schedule: str = "linear"
    """Key of `training.schedule.SCHEDULES`."""
    optimizer: str = "adamw"
    """Key of `training.optimizer.OPTIMIZERS`."""
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    """Of the optimizer; the values of BERT."""
    weight_decay: float = 0.01
    """Decoupled; not on biases and layer norms."""
    max_grad_norm: float | None = 1.0
    """Global gradient norm above which gradients are scaled down; None leaves them."""
    logging_steps: int = 20
    """Steps between two points of the curves."""
    eval_steps: int = 200
    """Steps between two evaluations on held-out text; there is always one at the end."""
    eval_sequences: int = 2048
    """Held-out sequences used at most."""
    checkpoint_seconds: int = 120
    """Seconds between two checkpoints."""
    seed: int = 1
    """Of the initial weights, the dropout and the order of the data."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_steps", "logging_steps", "eval_steps", "eval_sequences", "checkpoint_seconds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate: found {self.learning_rate}, expected more than 0, such as 1e-4")
        if not 0 <= self.warmup_steps <= self.max_steps:
            raise ValueError(
                f"warmup_steps: found {self.warmup_steps}, expected between 0 and max_steps ({self.max_steps}); "
                "lower it"
            )
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay: found {self.weight_decay}, expected 0 or more")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule: found {self.schedule!r}; {suggest(self.schedule, SCHEDULES)}")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer: found {self.optimizer!r}; {suggest(self.optimizer, OPTIMIZERS)}")
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective: found {self.objective!r}; {suggest(self.objective, OBJECTIVES)}")
