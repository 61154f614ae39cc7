"""One entry of `finetune.tasks` in params.yaml."""

from dataclasses import dataclass

from bertcore.training.optimizers.config import OptimizationConfig


@dataclass(frozen=True, kw_only=True)
class TaskConfig(OptimizationConfig):
    """One task: its data, and how a head on the encoder is trained for it."""

    format: str
    """What the data looks like: a key of `bertcore.examples.formats.FORMATS`."""
    data: str
    """Where it is: a local file or directory, `hf://ORG/NAME`, or `corpus` for tasks that the corpus itself gives."""
    sequence_length: int = 128
    """Tokens of one sequence at most, [CLS] and [SEP] included. Longer texts are truncated (classification, counted)
    or read in windows (tagging, question answering)."""
    batch_size: int = 32
    """Sequences of one optimizer step; a window counts as one."""
    epochs: int = 3
    """Passes over the training examples."""
    learning_rate: float = 3e-4
    """Peak of the schedule. 3e-4 suits tiny and mini; take 1e-4 for small and medium, 2e-5 to 5e-5 for base, large."""
    warmup_ratio: float = 0.1
    """Share of the steps in which the learning rate rises linearly from 0 to its peak."""
    dropout: float = 0.1
    """Share of activations dropped in the encoder and before the head."""
    attention_dropout: float = 0.0
    """Share of attention weights dropped; above zero it rules out the fused attention kernels."""
    max_train_examples: int | None = None
    """Training examples used at most, a fixed random choice that is the same for every seed; None = all."""
    doc_stride: int = 64
    """Tokens from the beginning of one window to that of the next (tagging, question answering). Where less than that
    fits into a window, the windows follow each other without a gap."""
    max_query_length: int = 64
    """Tokens of a question at most; the rest is cut off and counted."""
    max_answer_length: int = 30
    """Tokens of a predicted answer at most."""
    n_best: int = 20
    """Answers kept for each question."""
    seed: int = 1
    """Of the head's (or the whole model's) initial weights, the dropout and the order of the examples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch_size", "epochs", "doc_stride", "max_query_length", "max_answer_length", "n_best"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        if self.sequence_length < _SHORTEST:
            raise ValueError(f"sequence_length: found {self.sequence_length}, expected at least {_SHORTEST} tokens")
        if self.max_train_examples is not None and self.max_train_examples < 1:
            raise ValueError(f"max_train_examples: found {self.max_train_examples}, expected 1 or more, null for all")
        for name in ("dropout", "attention_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 <= p < 1")
        if not 0.0 <= self.warmup_ratio <= 1.0:
            raise ValueError(f"warmup_ratio: found {self.warmup_ratio}, expected a share between 0 and 1, such as 0.1")


_SHORTEST = 8
"""[CLS], a question and a context of at least one token each, two [SEP], and a little to spare."""
