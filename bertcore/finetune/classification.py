"""Classes or scores of a text or a pair of texts, from the pooled [CLS] (Devlin et al. 2018, figure 4 a and b)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from bertcore.examples.schema import ExampleSet
from bertcore.files import replace_file
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import Exported, Family, Predictions, label_index
from bertcore.finetune.features import Batch
from bertcore.finetune.kl_divergence import class_divergence
from bertcore.finetune.texts import TextFeatures, TextReader, all_pairs, texts_of
from bertcore.model.config import build_head
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import READING, label_names


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """One label, or one number, for each example."""

    ids: list[str]
    predicted: list[Any]

    def write(self, directory: Path, split: str) -> None:
        """`SPLIT.tsv` as GLUE's server takes it."""
        write_predictions(directory, split, self.ids, self.predicted)


def write_predictions(directory: Path, split: str, ids: Sequence[str], predicted: Sequence[Any]) -> None:
    """`SPLIT.tsv`: a header, and a row for each example."""
    rows = "".join(f"{key}\t{value}\n" for key, value in zip(ids, predicted, strict=True))
    with replace_file(directory / f"{split}.tsv") as beside:
        beside.write_text("index\tprediction\n" + rows, encoding="utf-8")


class Classification(Family):
    """A class of `labels` for each example, or a number where the task has none (regression)."""

    head = "sequence_classification"
    gold = "label"
    reading: tuple[str, ...] = ("sequence_length", "long_texts", "doc_stride")

    def __init__(self, task: RunConfig, examples: ExampleSet, tokenizer: Tokenizer) -> None:
        self.is_regression = examples.labels is None
        self._labels = ["score"] if examples.labels is None else examples.labels
        self._pairs = all_pairs(examples.splits.get("train"))
        self._reader = TextReader(task, tokenizer)

    def build(self, config: EncoderConfig) -> EncoderModule:
        return build_head(config, self.head, len(self._labels))

    def exported(self, model: EncoderModule) -> Exported:
        return Exported(model, {"problem_type": self._problem, **label_names(self._labels), READING: self._pairs})

    @property
    def _problem(self) -> str:
        return "regression" if self.is_regression else "single_label_classification"

    def featurize(self, table: pa.Table) -> TextFeatures:
        return self._reader.read(texts_of(table), self._targets(table))

    def loss(self, model: EncoderModule, logits: Tensor, batch: Batch) -> Tensor:
        """Cross entropy in nats, or squared error."""
        assert batch.targets is not None, "a batch without targets"
        if self.is_regression:
            return functional.mse_loss(logits.squeeze(-1).float(), batch.targets, reduction="sum")
        return functional.cross_entropy(logits.float(), batch.targets, reduction="sum")

    def soft_loss(self, logits: Tensor, teacher_logits: Tensor, batch: Batch, temperature: float) -> Tensor:
        if self.is_regression:
            return functional.mse_loss(logits.float(), teacher_logits.float(), reduction="sum")
        return class_divergence(logits, teacher_logits, temperature)

    def predict(
        self, table: pa.Table, features: TextFeatures, logits: NDArray[np.float32], model: EncoderModule
    ) -> Predictions:
        logits = features.pooled(logits)
        if self.is_regression:
            predicted: list[Any] = logits[:, 0].astype(float).tolist()
        else:
            predicted = [self._labels[index] for index in logits.argmax(axis=1)]
        return Labelled(ids=table["id"].to_pylist(), predicted=predicted)

    def _targets(self, table: pa.Table) -> NDArray[Any] | None:
        if table["label"].null_count:
            return None
        if self.is_regression:
            return table["label"].to_numpy()
        index_of = {label: index for index, label in enumerate(self._labels)}
        return np.asarray(
            [
                label_index(index_of, label, f"example {key}")
                for key, label in zip(table["id"].to_pylist(), table["label"].to_pylist(), strict=True)
            ],
            dtype=np.int64,
        )
