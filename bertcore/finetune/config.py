"""One entry of `finetune.tasks` in params.yaml, and the single runs that it asks for."""

import dataclasses
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from bertcore.config import within
from bertcore.draws import check_seed
from bertcore.finetune.short_training import ShortTrainingConfig


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """`distillation` of a task: a fine-tuned model whose logits are targets beside the labels."""

    teacher: str
    """A Hugging Face directory, fine-tuned for the same task, with the same labels and tokenizer; a copy of what an
    earlier run left in models/finetuned."""
    temperature: float = 2.0
    """Divides the logits of both, of classes; of numbers, none is divided."""
    alpha: float = 0.5
    """Share of the teacher's term in the loss; the labels have the rest."""

    def __post_init__(self) -> None:
        within(self, "temperature", "more than 0, such as 2.0", above=0)
        within(self, "alpha", "0 < alpha <= 1, such as 0.5; without a teacher: null", above=0, most=1)


@dataclass(frozen=True, kw_only=True)
class RunConfig(ShortTrainingConfig):
    """One run on one task: its data, and how a head on the encoder is trained for it."""

    format: str
    """What the data looks like; see docs/tasks.md."""
    data: str
    """Where it is: a local file or directory, `hf://ORG/NAME`, or `corpus` for tasks that the corpus itself gives."""
    init_from: str | None = None
    """A Hugging Face directory to start from, of any architecture here, with its own tokenizer; None = the encoder of
    stage `pretrain`."""
    sequence_length: int = 128
    """Tokens of one sequence at most, [CLS] and [SEP] included."""
    long_texts: Literal["truncate", "windows"] = "truncate"
    """What classification does with longer texts: cut their ends off (and count them), or read them in windows whose
    logits are averaged. Tagging and question answering read them in windows always, multiple choice always cuts."""
    batch_size: int = 32
    """Sequences of one optimizer step; a window counts as one, and an example of multiple choice, whatever its choices,
    does too."""
    group_by_length: bool = False
    """Draw each batch from sequences of similar length. Nothing is padded here either way: it helps where attention
    has to pad (attention dropout on a GPU)."""
    epochs: int = 3
    """Passes over the training examples."""
    early_choice: bool = False
    """Keep the weights of the epoch that scores best on what is kept back from train, the first of equals."""
    choice_fraction: float = 0.1
    """Share of the training examples that is kept back where something is to be chosen: one of several settings, an
    epoch (`early_choice`) or a threshold (`null_threshold: tuned`). Dev scores the choice and has no part in it."""
    learning_rate: float = 3e-4
    """Peak of the schedule. Of `recipe: modern`, 1e-3 suits tiny, 3e-4 or 1e-3 mini; of BERT's architecture
    3e-4, 1e-4 for small and medium, 2e-5 to 5e-5 for base and large."""
    layer_decay: float = 1.0
    """The learning rate of a layer over that of the layer above it; the head has the whole rate, the embeddings the
    smallest (Clark et al. 2020: 0.8 for base and smaller, 0.9 for large). 1 = the same rate everywhere."""
    dropout: float = 0.1
    """Share of activations dropped in the encoder and before the head."""
    attention_dropout: float = 0.0
    """Share of attention weights dropped; above zero it rules out the fused attention kernels."""
    max_train_examples: int | None = None
    """Training examples used at most, a fixed random choice that is the same for every seed; None = all."""
    doc_stride: int = 64
    """Tokens from the beginning of one window to that of the next. Where less than that fits into a window, the windows
    follow each other without a gap."""
    labels_on: Literal["first", "all"] = "first"
    """Pieces of a word that learn its tag (tagging): the first one, or all. The first one predicts it either way."""
    crf: bool = False
    """Tagging: learn how tags follow each other too (a linear-chain conditional random field), and predict the best
    sequence of tags instead of the best tag of each word. `bertcore tag` applies a saved model with its chain,
    `transformers` without."""
    max_query_length: int = 64
    """Tokens of a question at most; the rest is cut off and counted."""
    max_answer_length: int = 30
    """Tokens of a predicted answer at most."""
    n_best: int = 20
    """Answers kept for each question."""
    null_threshold: float | Literal["tuned"] = 0.0
    """How much better than the best answer "no answer" must score to be chosen (SQuAD 2.0); `tuned`: the value that is
    best by F1 on what is kept back from train."""
    distillation: DistillationConfig | None = None
    """A teacher of the same task; None = the labels alone."""
    seed: int = 1
    """Of the head's (or the whole model's) initial weights, the dropout and the order of the examples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed(self.seed)
        for name in ("batch_size", "epochs", "doc_stride", "max_query_length", "max_answer_length", "n_best"):
            within(self, name, "at least 1", least=1)
        within(self, "sequence_length", f"at least {_SHORTEST} tokens", least=_SHORTEST)
        within(self, "max_train_examples", "1 or more, null for all", least=1)
        for name in ("dropout", "attention_dropout"):
            within(self, name, "0 <= p < 1", least=0.0, below=1.0)
        within(self, "choice_fraction", "a share like 0.1", above=0.0, below=1.0)
        within(self, "layer_decay", "0 < decay <= 1, such as 0.8; 1 = none", above=0.0, most=1.0)
        if self.crf and self.distillation is not None:
            raise ValueError(
                "distillation: found a teacher with crf, whose chain it does not teach; expected crf: false"
            )
        if self.crf and self.labels_on == "all":
            raise ValueError("labels_on: found 'all' with crf, which is a chain of words; expected 'first'")


@dataclass(frozen=True, kw_only=True)
class TaskConfig(RunConfig):
    """An entry of `finetune.tasks`: a run, or several where `learning_rate`, `epochs` or `seed` is a list.

    Every combination of a learning rate and a number of epochs is trained with every seed, and the combination is kept
    whose median over the seeds is best on what is kept back from train.
    """

    learning_rate: float | list[float] = 3e-4  # type: ignore[assignment] # wider than a run's: what is asked, not done
    epochs: int | list[int] = 3  # type: ignore[assignment]
    """Each number of epochs is a run of its own: a schedule that falls to 0 has another course for each. Questions and
    pairs of texts want more of them than the 2 to 4 of large encoders (benchmarks/results/default.md)."""
    seed: int | list[int] = 1  # type: ignore[assignment]
    random_initialisation: bool = True
    """Whether the same runs are made from random weights, too, which says what pre-training gives; without them the
    task takes half as long."""

    def __post_init__(self) -> None:
        for name in (*GRID, "seed"):
            if isinstance(value := getattr(self, name), list) and (not value or len(set(value)) < len(value)):
                raise ValueError(f"{name}: found {value}, expected one or more values, each of them once")
        settings = self.settings()  # every run must be possible
        if self.max_train_examples == 1 and (len(settings) > 1 or self.early_choice or self.null_threshold == "tuned"):
            raise ValueError(
                "max_train_examples: found 1 with several settings, early_choice or null_threshold: tuned, which keep "
                "part of them back to choose on, expected 2 or more; raise it"
            )

    def settings(self) -> list[list[RunConfig]]:
        """For each combination of the values of `GRID`, in their order, a run for each seed."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(RunConfig)}
        choices = [dict(zip(GRID, values, strict=True)) for values in product(*(_listed(plain[name]) for name in GRID))]
        return [[RunConfig(**plain | choice | {"seed": seed}) for seed in _listed(self.seed)] for choice in choices]


GRID = ("learning_rate", "epochs")
"""The fields whose values are chosen where several are given."""

_SHORTEST = 8
"""[CLS], a question and a context of at least one token each, two [SEP], and a little to spare."""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
