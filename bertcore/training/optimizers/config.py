"""What every training, pre-training or fine-tuning, can say about its optimizer. Extended by the config of each."""

from dataclasses import dataclass
from typing import Literal

from bertcore.config import within
from bertcore.training.schedule import ScheduleName

OptimizerName = Literal["adamw", "bert_adam", "lamb", "muon"]


@dataclass(frozen=True, kw_only=True)
class Refinements:
    """What only a pre-training asks of its optimizer: learning rates of groups, over that of all others, and decays."""

    embeddings: float = 1.0
    """Of the embedding tables, and so of a head that is tied to one."""
    head: float = 1.0
    """Of the matrices outside of the embeddings and the encoder layers."""
    vectors: float = 1.0
    """Of biases and layer norms."""
    hidden_decay: float | None = None
    """Weight decay of the matrices of the encoder layers; None = as everywhere."""
    cautious: bool = False
    """Whether Muon's matrices decay only where their step makes them smaller as well."""


@dataclass(frozen=True, kw_only=True)
class OptimizationConfig:
    """How the gradients of one training become its steps."""

    learning_rate: float = 1e-4
    """Peak of the schedule."""
    schedule: ScheduleName = "linear"
    """After the warm-up: `linear` falls to 0 at the last step; `bert`, as the original code, goes on along the line
    from the first step to the last; `cosine` falls along half a cosine; `constant` stays; `wsd` stays, then falls."""
    optimizer: OptimizerName = "adamw"
    """`adamw`; `bert_adam`, the original code's, without bias correction; `lamb`, for large batches; `muon`, for the
    layers' matrices, with AdamW for everything else."""
    beta1: float = 0.9
    """Share of the mean of the gradients that is kept at each step."""
    beta2: float = 0.999
    """Share of the mean of their squares that is kept at each step; the values of BERT."""
    epsilon: float = 1e-6
    """Added to the root of that mean; the value of BERT."""
    momentum: float = 0.95
    """Of muon, for the matrices that it orthogonalises: what beta1 is for all other parameters."""
    weight_decay: float = 0.01
    """Decoupled."""
    decay_biases_and_norms: bool = False
    """Whether biases and layer norms decay as well; BERT's do not."""
    max_grad_norm: float | None = 1.0
    """Global gradient norm above which gradients are scaled down; None leaves them."""

    @property
    def refinements(self) -> Refinements:
        """What the optimizer is to do beside these settings."""
        return Refinements()

    def __post_init__(self) -> None:
        within(self, "learning_rate", "more than 0, such as 1e-4", above=0)
        within(self, "weight_decay", "0 or more, such as 0.01", least=0)
        within(self, "max_grad_norm", "more than 0, or null for no bound", above=0)
        within(self, "epsilon", "more than 0, such as 1e-6", above=0)
        for name in ("beta1", "beta2", "momentum"):
            within(self, name, f"0 <= {name} < 1, such as 0.9", least=0.0, below=1.0)
        if self.momentum != OptimizationConfig.momentum and self.optimizer != "muon":
            raise ValueError(
                f"momentum: found {self.momentum} with optimizer {self.optimizer}, expected muon, which has it; remove "
                "it, or set beta1"
            )
