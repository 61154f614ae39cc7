"""A head family as the fine-tuning loop sees it, and the names of labels, which all families share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from bertcore.errors import InputError
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import RunConfig
from bertcore.finetune.features import Batch, Features
from bertcore.model.encoder import EncoderModule, HeadFamily
from bertcore.model.encoder_config import EncoderConfig

CHOICE = "choice"
"""The split of what is kept back from train where something is to be chosen: a setting, an epoch, a threshold. What is
chosen on it is scored on dev, which no choice has seen."""


class Predictions(Protocol):
    """What a model says about the examples of one split."""

    @property
    def predicted(self) -> Any:
        """A label, a number, a place or a list of labels or tags for each row; of questions a mapping of ids to
        answers."""

    def write(self, directory: Path, split: str) -> None:
        """Files named for `split`, in the layout that the family's official scorer reads."""


@dataclass(frozen=True)
class Exported:
    """A model as it is saved."""

    model: EncoderModule
    """Of a class that Hugging Face has."""
    config: dict[str, Any]
    """The head's own keys of config.json."""


class Family(Protocol):
    """One task seen by its head family. What the families have in common stands here: they inherit it."""

    head: HeadFamily
    """Which of an architecture's classes is built."""
    gold: str
    """The column with what is to be predicted; a split has no labels where it holds a null."""
    reading: tuple[str, ...]
    """The fields of a `RunConfig` that are saved under `READING`."""
    own_fields: tuple[str, ...] = ()
    """The fields of a task that are refused with other families, unless these name them, too."""
    always_pairs: bool = False
    """Whether its examples are pairs of texts, whatever stands in them."""

    tunes: bool = False
    """Whether `tune` sets anything."""

    is_regression: bool = False
    """Whether the targets are numbers, one a sequence, in any unit: they are learned standardised (`Scale`), and said
    in their own unit by the trained model."""

    def __init__(self, task: RunConfig, examples: ExampleSet, tokenizer: Tokenizer) -> None: ...

    @classmethod
    def saved(
        cls,
        task: RunConfig,
        examples: ExampleSet,
        tokenizer: Tokenizer,
        config: Mapping[str, Any],  # noqa: ARG003 (what a family asks of it, its own method says)
    ) -> Self:
        """That of a saved model: `task.data` is its directory, `config` its config.json; `examples` has no splits."""
        return cls(task, examples, tokenizer)

    def build(self, config: EncoderConfig) -> EncoderModule:
        """The encoder with the family's head, with initial weights.

        Called with the token ids (T,), the segment ids (T,) and the layout of a batch, it gives logits: (B, C) for
        classes and sets of labels, (B, 1) for numbers and choices, each a sequence, (T, C) for tags, (T, 2) for the
        beginnings and the ends of answers.
        """

    def exported(self, model: EncoderModule) -> Exported:
        """What of a trained model is saved."""

    def featurize(self, table: pa.Table) -> Features:
        """The split `table` as token arrays; `InputError` for a label that the task does not have."""

    def loss(self, model: Any, logits: Tensor, batch: Batch) -> Tensor:
        """Scalar: the loss summed over the `batch.count` targets that count."""

    def soft_loss(self, logits: Tensor, teacher_logits: Tensor, batch: Batch, temperature: float) -> Tensor:
        """Scalar: how far `logits` are from those of a teacher, of the same shape, summed as `loss` is."""

    def predict(self, table: pa.Table, features: Any, logits: NDArray[np.float32], model: Any) -> Predictions:
        """From the logits that `model` gave for all sequences of `features`, which are `featurize(table)`: as `build`
        says, of all sequences or of all tokens."""

    def tune(self, predictions: dict[str, Any]) -> dict[str, float]:
        """Where the task asks for it, choose a parameter on the split `CHOICE`, which is not trained on, and set it in
        the predictions of all splits, in place. Name of the parameter -> chosen value; empty where nothing is."""
        return {}


def label_index(index_of: dict[str, int], label: str, where: str) -> int:
    """The index of `label`; `InputError` naming `where` it stands if the task has no such label."""
    if label not in index_of:
        raise InputError(f"{where}: found the label {label!r}, expected one of {', '.join(index_of)}; correct the data")
    return index_of[label]
