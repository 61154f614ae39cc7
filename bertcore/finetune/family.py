"""What the fine-tuning loop knows of a head family, and a family's predictions of themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from bertcore.finetune.features import Batch, Features
from bertcore.model.bert import BertModule
from bertcore.model.config import BertConfig


class Predictions(Protocol):
    """What a model says about the examples of one split."""

    def score(self, metrics: Sequence[str]) -> dict[str, float]:
        """Each of `metrics`; the examples must have labels."""

    def write(self, directory: Path, split: str) -> None:
        """Files named for `split`, in the layout that the family's official scorer reads."""


@dataclass(frozen=True)
class Exported:
    """A model as it is saved."""

    model: BertModule
    """Of a class that Hugging Face has."""
    config: dict[str, Any]
    """The head's own keys of config.json."""


class Family(Protocol):
    """One task seen by its head family; made from a `RunConfig`, an `ExampleSet` and a tokenizer."""

    gold: str
    """The column with what is to be predicted; a split has no labels where it holds a null."""

    def build(self, config: BertConfig) -> BertModule:
        """The encoder with the family's head, with initial weights.

        Called with the token ids, the segment ids and the layout of a batch, it gives logits: (B, …) or (T, …).
        """

    def exported(self, model: BertModule) -> Exported:
        """What of a trained model is saved."""

    def featurize(self, table: pa.Table) -> Features:
        """The split `table` as token arrays; `InputError` for a label that the task does not have."""

    def loss(self, model: Any, logits: Tensor, batch: Batch) -> Tensor:
        """Scalar: the loss summed over the `batch.count` targets that count."""

    def predict(self, table: pa.Table, features: Any, logits: NDArray[np.float32], model: Any) -> Predictions:
        """From the logits that `model` gave for all sequences of `features`, which are `featurize(table)`."""

    def settle(self, predictions: dict[str, Any]) -> dict[str, float]:
        """Change the predictions of all splits by what only those of dev can tell, where the task asks for it; what was
        found, by the name of the parameter."""
