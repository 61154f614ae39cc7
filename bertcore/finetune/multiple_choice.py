"""The right one of an example's choices: a logit for each, read as a pair with the context (Devlin et al. 2018, 4.4).

Examples may have different numbers of choices. Those of one example are learned in one batch, as their logits are one
softmax; when it predicts, the model reads each pair by itself.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from bertcore.errors import InputError
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.classification import Labelled
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import Exported, Family
from bertcore.finetune.features import IGNORED, Batch, Features
from bertcore.finetune.kl_divergence import class_divergence
from bertcore.finetune.texts import TextReader
from bertcore.model.config import build_head
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.ragged import offsets_of


class MultipleChoice(Family):
    """One of the choices of each example."""

    head = "multiple_choice"
    gold = "label"
    reading: tuple[str, ...] = ("sequence_length",)
    always_pairs = True

    def __init__(self, task: RunConfig, examples: ExampleSet, tokenizer: Tokenizer) -> None:
        self._reader = TextReader(replace(task, long_texts="truncate"), tokenizer)

    def build(self, config: EncoderConfig) -> EncoderModule:
        return build_head(config, self.head, 1)

    def exported(self, model: EncoderModule) -> Exported:
        return Exported(model, {})

    def featurize(self, table: pa.Table) -> Features:
        """A sequence for each choice. The first one of an example has its label as target, the others are ignored."""
        columns = [table[name].to_pylist() for name in ("context", "question", "choices")]
        pairs = [
            (context, f"{question} {choice}" if question else choice)
            for context, question, choices in zip(*columns, strict=True)
            for choice in choices
        ]
        sizes = np.asarray([len(choices) for choices in columns[2]], dtype=np.int64)
        groups, rows = offsets_of(sizes), np.repeat(np.arange(len(sizes)), sizes)
        read = self._reader.read(pairs, _targets(table, groups))
        assert read.cut is not None, "texts that nobody has looked at"
        cut = np.bincount(rows, weights=read.cut, minlength=len(sizes)) > 0
        return replace(read, groups=groups, examples=rows, cut=cut, counts={"choices_cut": read.counts["truncated"]})

    def loss(self, model: EncoderModule, logits: Tensor, batch: Batch) -> Tensor:
        """Cross entropy in nats over the choices of each example."""
        assert batch.targets is not None, "a batch without targets"
        labels = batch.targets[batch.targets != IGNORED]
        return functional.cross_entropy(_by_example(logits, batch.targets), labels, reduction="sum")

    def soft_loss(self, logits: Tensor, teacher_logits: Tensor, batch: Batch, temperature: float) -> Tensor:
        assert batch.targets is not None, "a batch without targets"
        own, theirs = (_by_example(each, batch.targets) for each in (logits, teacher_logits))
        return class_divergence(own, theirs, temperature)

    def predict(
        self, table: pa.Table, features: Features, logits: NDArray[np.float32], model: EncoderModule
    ) -> Labelled:
        """The place of one choice for each example, from 0."""
        predicted = [int(each.argmax()) for each in of_examples(features, logits)]
        return Labelled(ids=table["id"].to_pylist(), predicted=predicted)


def of_examples(features: Features, logits: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """(N, 1) logits of all sequences -> for each example those of its choices, (C,)."""
    assert features.groups is not None, "choices that belong to no example"
    return np.split(logits[:, 0], features.groups[1:-1]) if len(features.groups) > 1 else []


def _targets(table: pa.Table, groups: NDArray[np.int64]) -> NDArray[np.int64] | None:
    if table["label"].null_count:
        return None
    labels, counts = table["label"].to_numpy().astype(np.int64), np.diff(groups)
    for row in np.flatnonzero((labels < 0) | (labels >= counts) | (counts < 2)):
        raise InputError(
            f"example {table['id'][int(row)]}: found the label {labels[row]} of {counts[row]} choices, expected two "
            "or more choices, and a label from 0 that is less than their number; correct the data"
        )
    targets = np.full(groups[-1], IGNORED, dtype=np.int64)
    targets[groups[:-1]] = labels
    return targets


def _by_example(logits: Tensor, targets: Tensor) -> Tensor:
    """(N, 1) logits -> (examples, most choices) float32, minus infinity behind an example's last choice."""
    is_first = targets != IGNORED
    example = is_first.cumsum(0) - 1
    places = torch.arange(len(targets), device=targets.device)
    place = places - places[is_first][example]
    shape = (int(example[-1]) + 1, int(place.max()) + 1)
    padded = logits.new_full(shape, float("-inf"), dtype=logits.float().dtype)
    return padded.index_put((example, place), logits.squeeze(-1).float())
