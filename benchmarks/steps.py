"""One pre-training step, ours and Hugging Face's, over the same global batches, as work that can take turns."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.text import SEED, Text, mask_config
from benchmarks.turns import Work
from bertcore.instances.config import MaskConfig, MaskingRule
from bertcore.instances.sources import Instances
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.precision import autocast, device
from bertcore.training import machine
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.loader import Loader
from bertcore.training.loop import Pretraining, TrainingData


@dataclass(frozen=True)
class Setting:
    """What both sides train."""

    text: Path
    """A directory that `Text.prepare` made."""
    preset: str
    sequence_length: int
    batch_size: int
    dropout: float

    @property
    def model(self) -> ModelConfig:
        return ModelConfig(
            preset=self.preset,
            fields={"hidden_dropout_prob": self.dropout, "attention_probs_dropout_prob": self.dropout},
        )


class OurTraining(Pretraining):
    """`bertcore`'s training loop, as stage `pretrain` runs it; `rate` replaces the schedule where it is given."""

    rate: float | None = None

    def learning_rate(self) -> float:
        return super().learning_rate() if self.rate is None else self.rate


def our_training(
    setting: Setting,
    config: PretrainConfig,
    mask: MaskConfig | None = None,
    rule: Callable[[int], MaskingRule] | None = None,
) -> OurTraining:
    """With `config`'s objective and optimizer, on BERT's pairs or the sequences of `mask`, masked by `rule`."""
    text, mask = Text(setting.text), mask or mask_config(setting.sequence_length)
    accelerator = machine.make_accelerator()
    torch.manual_seed(SEED)
    model = build_pretraining(config.model.build(text.vocabulary.size))
    loader = text.loader(mask, setting.batch_size, rule)
    checkpoints = Checkpoints(setting.text / "checkpoints")
    return OurTraining(config, model, TrainingData(batches=loader), accelerator, checkpoints)


Batch = dict[str, Tensor]
Loss = Callable[[Batch], Tensor]


class PlainTraining:
    """The loop that `transformers`' documentation teaches: fused AdamW and bf16 autocast, on the device of the
    `trained` parameters; padded to the longest sequence of the batch. AdamW's numbers are the defaults of
    `PretrainConfig`."""

    def __init__(self, loader: Loader, loss: Loss, trained: Iterable[nn.Parameter]) -> None:
        self._loader, self._loss, self._trained = loader, loss, list(trained)
        self.optimizer = torch.optim.AdamW(self._trained, lr=1e-4, eps=1e-6, weight_decay=0.01, fused=True)
        self._steps = 0

    def train_step(self) -> int:
        """One optimizer step; the real tokens in it."""
        instances, place = self._loader.batch(self._steps), self._trained[0].device
        batch = {name: torch.from_numpy(array).to(place) for name, array in padded(instances).items()}
        with autocast(place):
            loss = self._loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self._trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._steps += 1
        return len(instances.tokens)


HEADS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "BertForMaskedLM": lambda model, states: model.cls(states),
    "BertForPreTraining": lambda model, states: model.cls.predictions(states),
    "RobertaForMaskedLM": lambda model, states: model.lm_head(states),
    "DebertaV2ForMaskedLM": lambda model, states: model.cls(states),
    "ModernBertForMaskedLM": lambda model, states: model.decoder(model.head(states)),
}
"""What classes of `transformers` make of last states: the logits of the vocabulary."""


def masked_token_loss(model: Any, batch: Batch) -> Tensor:
    """What `model(**batch).loss` is for one of `HEADS`, by a head that reads the masked tokens alone: as they are, the
    classes compute the logits of all tokens, ModernBERT's unless its config says `sparse_prediction`."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    if "next_sentence_label" in batch:
        inputs["token_type_ids"] = batch["token_type_ids"]
    encoded, masked = model.base_model(**inputs), batch["labels"] != -100
    logits = HEADS[type(model).__name__](model, encoded.last_hidden_state[masked])
    loss = functional.cross_entropy(logits.float(), batch["labels"][masked])
    if "next_sentence_label" not in batch:
        return loss
    told = model.cls.seq_relationship(encoded.pooler_output)
    return loss + functional.cross_entropy(told.float(), batch["next_sentence_label"])


class HuggingFaceTraining(PlainTraining):
    """`BertForPreTraining` with SDPA on BERT's pairs; with `masked_only` its head reads the masked tokens alone."""

    def __init__(self, setting: Setting, compiled: bool = False, masked_only: bool = False) -> None:
        text = Text(setting.text)
        loader = text.loader(mask_config(setting.sequence_length), setting.batch_size)
        shape = setting.model.build(text.vocabulary.size)
        torch.manual_seed(SEED)
        config = transformers.BertConfig(
            vocab_size=shape.vocab_size,
            hidden_size=shape.hidden_size,
            num_hidden_layers=shape.num_hidden_layers,
            num_attention_heads=shape.num_attention_heads,
            intermediate_size=shape.intermediate_size,
            hidden_dropout_prob=setting.dropout,
            attention_probs_dropout_prob=setting.dropout,
        )
        model = transformers.AutoModelForPreTraining.from_config(config, attn_implementation="sdpa")
        model = model.to(device()).train()
        forward = torch.compile(model) if compiled else model
        loss = partial(masked_token_loss, model) if masked_only else lambda batch: forward(**batch).loss
        super().__init__(loader, loss, model.parameters())


def ours(setting: Setting, compiled: bool = False) -> Work:
    """For turns, each in a process of its own."""
    os.environ["BERTCORE_COMPILE"] = str(int(compiled))
    config = PretrainConfig(model=setting.model, batch_size=setting.batch_size, max_steps=10**6, seed=SEED)
    return our_training(setting, config).train_step


def huggingface(setting: Setting, compiled: bool = False, masked_only: bool = False) -> Work:
    """For turns."""
    return HuggingFaceTraining(setting, compiled, masked_only).train_step


def padded(instances: Instances) -> dict[str, np.ndarray]:
    """A batch as `transformers` expects it: (B, L) arrays, padded to the longest sequence."""
    lengths = instances.lengths
    width = int(lengths.max())
    column = np.arange(len(instances.tokens)) - np.repeat(instances.offsets[:-1], lengths)
    place = np.repeat(np.arange(len(lengths)) * width, lengths) + column
    flat = {
        name: np.full(len(lengths) * width, -100 if name == "labels" else 0, np.int64)
        for name in ("input_ids", "token_type_ids", "attention_mask", "labels")
    }
    flat["input_ids"][place] = instances.tokens
    flat["token_type_ids"][place] = column >= np.repeat(instances.segment_a_lengths, lengths)
    flat["attention_mask"][place] = 1
    flat["labels"][place[instances.masked_positions]] = instances.masked_labels
    rows = {name: array.reshape(len(lengths), width) for name, array in flat.items()}
    if instances.next_sentence_labels is None:
        return rows
    return rows | {"next_sentence_label": instances.next_sentence_labels.astype(np.int64)}
