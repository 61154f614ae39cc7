"""Any number of labels for a text or a pair of texts: an independent yes or no for each, from the pooled [CLS]."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from bertcore.evaluation import multi_label
from bertcore.finetune.classification import Classification, write_predictions
from bertcore.finetune.family import label_index
from bertcore.finetune.features import Batch
from bertcore.finetune.kl_divergence import yes_no_divergence
from bertcore.finetune.texts import TextFeatures
from bertcore.model.encoder import EncoderModule


@dataclass(frozen=True, kw_only=True)
class PredictedSets:
    """The labels of each example."""

    ids: list[str]
    predicted: list[list[str]]

    def write(self, directory: Path, split: str) -> None:
        """`SPLIT.tsv` as `bertcore.evaluation.multi_label` reads it."""
        write_predictions(directory, split, self.ids, [multi_label.cell_of(labels) for labels in self.predicted])


class MultiLabel(Classification):
    """Those of `labels` that are more likely than not."""

    gold = "labels"
    _problem = "multi_label_classification"

    def loss(self, model: EncoderModule, logits: Tensor, batch: Batch) -> Tensor:
        """Cross entropy in nats of each yes or no."""
        assert batch.targets is not None, "a batch without targets"
        return functional.binary_cross_entropy_with_logits(logits.float(), batch.targets, reduction="sum")

    def soft_loss(self, logits: Tensor, teacher_logits: Tensor, batch: Batch, temperature: float) -> Tensor:
        return yes_no_divergence(logits, teacher_logits, temperature)

    def predict(
        self, table: pa.Table, features: TextFeatures, logits: NDArray[np.float32], model: EncoderModule
    ) -> PredictedSets:
        chosen = features.pooled(logits) > 0
        predicted = [[self._labels[index] for index in np.flatnonzero(row)] for row in chosen]
        return PredictedSets(ids=table["id"].to_pylist(), predicted=predicted)

    def _targets(self, table: pa.Table) -> NDArray[np.float32] | None:
        if table["labels"].null_count:
            return None
        index_of = {label: index for index, label in enumerate(self._labels)}
        targets = np.zeros((table.num_rows, len(self._labels)), dtype=np.float32)
        rows: list[tuple[str, Any]] = list(zip(table["id"].to_pylist(), table["labels"].to_pylist(), strict=True))
        for row, (key, labels) in enumerate(rows):
            targets[row, [label_index(index_of, label, f"example {key}") for label in labels]] = 1.0
        return targets
