"""One task, fine-tuned from any encoder: train, predict, score."""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.errors import ConfigError, InputError, TrainingError
from bertcore.evaluation.per_example import Units
from bertcore.evaluation.scoring import score, units
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.advice import advice
from bertcore.finetune.config import RunConfig
from bertcore.finetune.distillation import load_teacher
from bertcore.finetune.encoder_tokenizer import check_size
from bertcore.finetune.families import FAMILIES
from bertcore.finetune.family import CHOICE, Predictions
from bertcore.finetune.inference import logits_of
from bertcore.finetune.loop import EarlyChoice, Loop
from bertcore.finetune.result import Result, Trained
from bertcore.finetune.scale import Scale
from bertcore.finetune.training_rows import training_rows
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import FAMILY, READING, load_config, load_pretrained
from bertcore.tokens.tokenizer import Vocabulary
from bertcore.training.machine import make_accelerator
from bertcore.training.metrics import Report, silent

logger = logging.getLogger(__name__)

InitialEncoder = Path | EncoderConfig
"""A Hugging Face directory, or the shape of an encoder to start with random weights."""


class Finetuning:
    """One task with its texts as tokens, made once for all encoders, seeds and settings."""

    def __init__(
        self,
        task: RunConfig,
        examples: ExampleSet,
        tokenizer: Tokenizer,
        *,
        several_settings: bool = False,
        teacher: Path | None = None,
    ) -> None:
        """With `several_settings`, or where the task leaves something else open, part of train is kept back to choose
        on, the split `CHOICE`. `teacher` is the directory of the task's `distillation`, its own name by default."""
        self._task, self._examples, self._tokenizer = task, examples, tokenizer
        self.accelerator = make_accelerator()
        if self.accelerator.num_processes > 1:
            raise TrainingError(
                f"fine-tuning was started in {self.accelerator.num_processes} processes, expected one; "
                "set BERTCORE_PROCESSES=1"
            )
        self._family = FAMILIES[examples.family](task, examples, tokenizer)
        keeps_back = several_settings or task.early_choice or self._family.tunes
        self._tables = training_rows(examples.splits["train"], task, keeps_back=keeps_back)
        self._tables |= {split: table for split, table in sorted(examples.splits.items()) if split != "train"}
        self._features = {split: self._family.featurize(table) for split, table in self._tables.items()}
        if found := sum(each.counts.get("words_without_pieces", 0) for each in self._features.values()):
            logger.warning("words of characters that the tokenizer leaves out, read as unknown ones: %d", found)
        if not len(self._features["train"]) or self._features["train"].targets is None:
            raise InputError(f"task {task.data}: found no labelled training example, expected some; check the data")
        self._scale: Scale | None = None
        if self._family.is_regression:
            targets = self._features["train"].targets
            self._scale = Scale.of(targets)
            self._features["train"] = replace(self._features["train"], targets=self._scale.standardised(targets))
        self.teacher: EncoderModule | None = None
        """Of the task's `distillation`."""
        if (distillation := task.distillation) is not None:
            directory = teacher or Path(distillation.teacher)
            loaded = load_teacher(directory, distillation.teacher, self._family, tokenizer)
            self._check_segments(loaded.config, distillation.teacher)
            self.teacher = loaded.to(self.accelerator.device)

    @cached_property
    def _teacher_logits(self) -> NDArray[np.float32] | None:
        """Of train: asked once for all epochs, seeds and settings, as it drops nothing out and the
        examples stay the same; and not where nothing is trained."""
        if self.teacher is None:
            return None
        logits = logits_of(self.teacher, self._features["train"], self.accelerator)
        return logits if self._scale is None else self._scale.standardised(logits)

    @property
    def examples(self) -> ExampleSet:
        """What is trained and evaluated on: the examples given, no more of train than `max_train_examples`, and of that
        the part that is kept back as a split of its own."""
        return replace(self._examples, splits=self._tables)

    @property
    def headline(self) -> str:
        """The metric by which runs are compared; `InputError` where dev has no rows or no labels."""
        if not self._is_labelled("dev"):
            raise InputError(f"task {self._task.data}: found no labelled dev example, expected some to score; add them")
        return self._examples.metrics_of("dev")[0]

    def advise(self, encoder: Path, task: RunConfig) -> None:
        """Warn of the usual mistakes with a pre-trained encoder, one line each."""
        sizes = self._tables["train"].num_rows, len(self._features["train"].group_lengths)
        for line in advice(task, load_config(encoder), self._tokenizer, *sizes):
            logger.warning("%s: %s", task.data, line)

    def run(
        self, encoder: InitialEncoder, task: RunConfig | None = None, *, name: str = "finetune", report: Report = silent
    ) -> Result:
        """Train on train and evaluate on all other splits; see `train` and `result`."""
        return self.result(self.train(encoder, task, name=name, report=report))

    def train(
        self, encoder: InitialEncoder, task: RunConfig | None = None, *, name: str = "finetune", report: Report = silent
    ) -> Trained:
        """Train on train; the model with its logits for all other splits, and how it scores.

        `task` may differ from the one given first in what tokens do not depend on: seed, rate, epochs. The seed is set
        for the whole process. `name` is what the progress is shown under. The same arguments give the same bits on one
        kind of processor and number of threads.
        """
        task = task or self._task
        torch.manual_seed(task.seed)
        model = self.build(encoder, task).to(self.accelerator.device)
        teacher_logits, began = self._teacher_logits, time.perf_counter()
        loop = Loop(model, task, self._family, self._features["train"], self.accelerator, report, teacher_logits)
        choice = None
        if task.early_choice:
            per_epoch = loop.steps // task.epochs
            choice = EarlyChoice(model, self._choice_scores, self.headline, loop.history, per_epoch)
        loop.run(name, None if choice is None else choice.after_step)
        if choice is not None:
            choice.restore()
        model = self._in_own_unit(model)
        done = time.perf_counter()
        logits = {split: self._logits(split, model, f"{name} {split}") for split in self._tables if split != "train"}
        seconds = {"train": done - began, "evaluate": time.perf_counter() - done}
        predictions, tuned = self._predicted(logits, model)
        metrics = self._scored(predictions)
        loop.history.add(loop.steps, {f"eval/{metric}": value for metric, value in metrics.get("dev", {}).items()})
        return Trained(
            model=model,
            logits=logits,
            curves=loop.history.rows,
            best_epoch=None if choice is None else choice.best_epoch,
            steps=loop.steps,
            tokens=len(self._features["train"].tokens) * task.epochs,
            seconds=seconds,
            metrics=metrics,
            tuned=tuned,
            dev_units=self.units(predictions["dev"].predicted)[1] if self._is_labelled("dev") else None,
        )

    def result(self, trained: Trained) -> Result:
        """A trained model as it is saved, and what it says about the examples."""
        predictions, tuned = self._predicted(trained.logits, trained.model)
        exported = self._family.exported(trained.model)
        settings = {name: getattr(self._task, name) for name in self._family.reading} | tuned
        reading = {FAMILY: self._examples.family, **exported.config.get(READING, {}), **settings}
        return Result(
            **vars(trained) | {"model": exported.model},
            model_config=exported.config | {READING: reading},
            predictions={split: predicted for split, predicted in predictions.items() if split != CHOICE},
        )

    def _predicted(
        self, logits: Mapping[str, NDArray[np.float32]], model: EncoderModule
    ) -> tuple[dict[str, Predictions], dict[str, float]]:
        """What `model` says about the splits of which it gave the `logits`, and what was tuned on `CHOICE` among
        them."""
        predictions: dict[str, Predictions] = {
            split: self._family.predict(self._tables[split], self._features[split], each, model)
            for split, each in logits.items()
        }
        return predictions, self._family.tune(predictions)

    def _scored(self, predictions: Mapping[str, Predictions]) -> dict[str, dict[str, float]]:
        """The scores of the splits with labels."""
        return {
            split: score(self._examples, self._tables[split], each.predicted, self._examples.metrics_of(split))
            for split, each in predictions.items()
            if self._is_labelled(split)
        }

    def build(self, encoder: InitialEncoder, task: RunConfig) -> EncoderModule:
        """The model that a run starts with; `ArtifactError` or `ConfigError` where encoder and task do not fit."""
        config, where = (load_config(encoder), str(encoder)) if isinstance(encoder, Path) else (encoder, "encoder")
        check_size(self._tokenizer, config, where)
        if task.sequence_length > config.max_sequence_length:
            raise ConfigError(
                f"sequence_length: found {task.sequence_length}, expected at most the "
                f"{config.max_sequence_length} positions of the encoder; lower it"
            )
        self._check_segments(config, where)
        config = config.with_padding(Vocabulary.of(self._tokenizer).pad, where)
        model = self._family.build(config.with_dropout(task.dropout, task.attention_dropout))
        if isinstance(encoder, Path):
            _load_encoder(model, encoder)
        return model

    def _check_segments(self, config: EncoderConfig, name: str) -> None:
        if config.segments == 1 and any(features.token_types.any() for features in self._features.values()):
            raise ConfigError(
                f"{name}: type_vocab_size: found 1, expected 2 for examples that are pairs of texts; take another "
                "encoder"
            )

    def scored(self, model: EncoderModule) -> dict[str, float]:
        """The metrics of any model of the family on dev, which has labels."""
        splits = ("dev", CHOICE) if self._family.tunes else ("dev",)  # tuned as every run of the task is
        predictions, _ = self._predicted({split: self._logits(split, model) for split in splits}, model)
        return self._scored(predictions)["dev"]

    def seconds_of_dev(self, model: EncoderModule) -> float:
        """How long `model`, of the family, takes for the logits of dev."""
        began = time.perf_counter()
        self._logits("dev", model)
        return time.perf_counter() - began

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Split -> reason -> number of examples that the model does not see as they are (truncated, in windows …), and
        under `examples` and `sequences` how many there are."""
        return {
            split: {"examples": self._tables[split].num_rows, "sequences": len(features), **features.counts}
            for split, features in self._features.items()
        }

    def units(self, predicted: Any) -> tuple[str, Units]:
        """What each dev example adds to the headline metric, and the name of that sum in `bootstrap.METRICS`."""
        return units(self._examples, self._tables["dev"], predicted, self.headline)

    def _in_own_unit(self, model: EncoderModule) -> EncoderModule:
        """`model`, trained or in training, giving numbers in the unit of the labels; of other families, as it is."""
        return model if self._scale is None else self._scale.restored(model)

    def _choice_scores(self, model: EncoderModule) -> dict[str, float]:
        model = self._in_own_unit(model)
        predictions, _ = self._predicted({CHOICE: self._logits(CHOICE, model)}, model)
        return self._scored(predictions)[CHOICE]

    def _logits(self, split: str, model: EncoderModule, progress: str | None = None) -> np.ndarray:
        features = self._features[split]
        is_long = len(features.tokens) > _LONG
        return logits_of(model, features, self.accelerator, progress if is_long else None)

    def _is_labelled(self, split: str) -> bool:
        table = self._tables.get(split)
        return table is not None and bool(table.num_rows) and not table[self._family.gold].null_count


def _load_encoder(model: EncoderModule, directory: Path) -> None:
    """Read the weights of an encoder into `model`, whose head keeps its own: that in `directory` may be of another
    task."""
    if missing := load_pretrained(model.base_model, directory).missing:
        logger.warning("%s has no %s: drawn anew", directory, ", ".join(missing))


_LONG = 300_000
"""Tokens from which on an evaluation shows its progress: a mini reads them in some ten seconds of a core."""
