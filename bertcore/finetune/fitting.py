"""The fine-tuning loop; it knows nothing of the family it trains."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.data import draws
from bertcore.errors import ArtifactError, ConfigError, InputError, TrainingError
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import TaskConfig
from bertcore.finetune.families import FAMILIES
from bertcore.finetune.features import Features
from bertcore.finetune.result import Result
from bertcore.model.bert import BertModel, BertModule
from bertcore.model.config import BertConfig
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.progress import Progress
from bertcore.training.distributed import make_accelerator, micro_batch_size
from bertcore.training.optimizers import build_optimizer
from bertcore.training.schedule import SCHEDULES

logger = logging.getLogger(__name__)

_CURVE_POINTS = 100
"""Points of a training curve, about."""

_EVAL_TOKENS = 8192
"""Tokens of a batch that is only evaluated, at most."""

Report = Callable[[int, dict[str, float]], None]
"""Called with the number of finished steps and the metrics by their MLflow names."""


class Finetuning:
    """One task with its texts as tokens, to be fine-tuned from several encoders and with several seeds."""

    def __init__(
        self, task: TaskConfig, examples: ExampleSet, tokenizer: Tokenizer, accelerator: Accelerator | None = None
    ) -> None:
        self._task, self._examples = task, examples
        self._vocab_size = tokenizer.get_vocab_size()
        self._accelerator = accelerator or make_accelerator()
        if self._accelerator.num_processes > 1:
            raise TrainingError(
                f"fine-tuning was started in {self._accelerator.num_processes} processes, expected one; "
                "set BERTCORE_PROCESSES=1"
            )
        self._family = FAMILIES[examples.family](task, examples, tokenizer)
        self._tables = {"train": _choose(examples.splits["train"], task.max_train_examples)}
        self._tables |= {split: table for split, table in sorted(examples.splits.items()) if split != "train"}
        self._features = {split: self._family.featurize(table) for split, table in self._tables.items()}
        if not len(self._features["train"]) or self._features["train"].targets is None:
            raise InputError(f"task {task.data}: found no labelled training example, expected some; check the data")

    @property
    def examples(self) -> ExampleSet:
        """What is trained and evaluated on: the examples given, no more of train than `max_train_examples`."""
        return replace(self._examples, splits=self._tables)

    @property
    def steps(self) -> int:
        """Optimizer steps of one run."""
        return self._task.epochs * -(-len(self._features["train"]) // self._task.batch_size)

    def run(
        self,
        encoder: Path | BertConfig,
        *,
        seed: int | None = None,
        name: str = "finetune",
        report: Report = lambda step, metrics: None,
    ) -> Result:
        """Train on train and evaluate on all other splits.

        `encoder` is a Hugging Face BERT directory, or the shape of an encoder to start with random weights. `seed` None
        means the task's own; it is set for the whole process. `name` is what the progress is shown under. The same
        arguments give the same bits on one kind of processor and number of threads.
        """
        task = self._task if seed is None else replace(self._task, seed=seed)
        torch.manual_seed(task.seed)
        model = self._build(encoder).to(self._accelerator.device)
        began = time.perf_counter()
        curves = self._train(model, task, Progress(name, self.steps), report)
        trained = time.perf_counter()
        predictions = {
            split: self._family.predict(table, self._features[split], self._logits(model, self._features[split]))
            for split, table in self._tables.items()
            if split != "train"
        }
        metrics = {
            split: predicted.score(self._examples.metrics)
            for split, predicted in predictions.items()
            if not self._tables[split][self._family.gold].null_count
        }
        final = {f"eval/{metric}": value for metric, value in metrics.get("dev", {}).items()}
        report(self.steps, final)
        return Result(
            model=model,
            model_config=self._family.model_config(),
            metrics=metrics,
            predictions=predictions,
            curves=[*curves, {"step": self.steps, **final}],
            counts={split: self._counts(split) for split in self._tables},
            steps=self.steps,
            tokens=len(self._features["train"].tokens) * task.epochs,
            seconds={"train": trained - began, "evaluate": time.perf_counter() - trained},
        )

    def _build(self, encoder: Path | BertConfig) -> BertModule:
        config, where = (load_config(encoder), str(encoder)) if isinstance(encoder, Path) else (encoder, "encoder")
        if self._vocab_size > config.vocab_size:
            raise ArtifactError(
                f"{where}: vocab_size: found {config.vocab_size}, expected at least the {self._vocab_size} entries of "
                "the tokenizer; use the encoder's own tokenizer"
            )
        if self._task.sequence_length > config.max_position_embeddings:
            raise ConfigError(
                f"sequence_length: found {self._task.sequence_length}, expected at most the "
                f"{config.max_position_embeddings} positions of the encoder; lower it"
            )
        dropout, attention_dropout = self._task.dropout, self._task.attention_dropout
        config = replace(config, hidden_dropout_prob=dropout, attention_probs_dropout_prob=attention_dropout)
        model = self._family.build(config)
        if isinstance(encoder, Path):
            _load_encoder(model, encoder)
        return model

    def _train(self, model: BertModule, task: TaskConfig, progress: Progress, report: Report) -> list[dict[str, float]]:
        optimizer = build_optimizer(model, task)
        schedule, warmup = SCHEDULES[task.schedule], int(task.warmup_ratio * self.steps)
        every = max(self.steps // _CURVE_POINTS, 1)
        curves: list[dict[str, float]] = []
        losses: list[torch.Tensor] = []
        model.train()
        for step, rows in enumerate(batches(len(self._features["train"]), task), start=1):
            rate = task.learning_rate * schedule(step - 1, warmup, self.steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            losses.append(self._backward(model, rows))
            bound = float("inf") if task.max_grad_norm is None else task.max_grad_norm
            norm = self._accelerator.clip_grad_norm_(model.parameters(), bound)
            optimizer.step()
            optimizer.zero_grad()
            if step % every == 0 or step == self.steps:
                metrics = _metrics(step, losses, norm, rate)
                losses.clear()
                curves.append({"step": step, **metrics})
                report(step, metrics)
            progress.advance(f"loss {curves[-1]['train/loss']:.3f}" if curves else "")
        progress.close()
        return curves

    def _backward(self, model: BertModule, rows: NDArray[np.int64]) -> torch.Tensor:
        """Add the gradient of the mean loss over the sequences `rows`, and give that loss."""
        size = micro_batch_size(len(rows))
        parts = [self._features["train"].batch(rows[at : at + size]) for at in range(0, len(rows), size)]
        count = max(sum(part.count for part in parts), 1)
        total = torch.zeros((), device=self._accelerator.device)
        for part in parts:
            batch = part.to(self._accelerator.device)
            with self._accelerator.autocast():
                logits = model(batch.input_ids, batch.token_type_ids, batch.layout)
            loss = self._family.loss(logits, batch) / count
            self._accelerator.backward(loss)
            total += loss.detach()
        return total

    @torch.inference_mode()
    def _logits(self, model: BertModule, features: Features) -> NDArray[np.float32]:
        """The logits of all sequences (or tokens), in their order. Computed from short to long, many at once."""
        model.eval()
        result: NDArray[np.float32] | None = None
        for rows in _by_length(features.lengths):
            batch = features.batch(rows).to(self._accelerator.device)
            with self._accelerator.autocast():
                logits = model(batch.input_ids, batch.token_type_ids, batch.layout).float().cpu().numpy()
            if result is None:
                total = len(features.tokens) if len(logits) == batch.layout.total else len(features)
                result = np.empty((total, logits.shape[1]), dtype=np.float32)
            result[features.token_rows(rows) if len(result) == len(features.tokens) else rows] = logits
        return np.zeros((0, 1), dtype=np.float32) if result is None else result

    def _counts(self, split: str) -> dict[str, int]:
        features = self._features[split]
        return {"examples": self._tables[split].num_rows, "sequences": len(features), **features.counts}


def finetune(
    task: TaskConfig,
    examples: ExampleSet,
    tokenizer: Tokenizer,
    encoder: Path | BertConfig,
    *,
    name: str = "finetune",
    report: Report = lambda step, metrics: None,
) -> Result:
    """Tokenise, train and evaluate once; see `Finetuning.run`."""
    return Finetuning(task, examples, tokenizer).run(encoder, name=name, report=report)


def _load_encoder(model: BertModule, directory: Path) -> None:
    """Without the head, which may be that of another task."""
    bert = model.get_submodule("bert")
    assert isinstance(bert, BertModel)
    if missing := load_pretrained(bert, directory).missing:
        logger.warning("%s has no %s: drawn anew", directory, ", ".join(missing))


def batches(size: int, task: TaskConfig) -> list[NDArray[np.int64]]:
    """The sequences of every step of a run over `size` sequences, a pure function of (seed, epoch) for each epoch."""
    return [
        order[start : start + task.batch_size]
        for order in (draws.permutation(draws.key("finetune", task.seed, epoch), size) for epoch in range(task.epochs))
        for start in range(0, size, task.batch_size)
    ]


def _choose(table: pa.Table, limit: int | None) -> pa.Table:
    if limit is None or limit >= table.num_rows:
        return table
    return table.take(np.sort(draws.permutation(draws.key("finetune examples"), table.num_rows)[:limit]))


def _by_length(lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """All sequences from short to long, in batches of at most `_EVAL_TOKENS` tokens (or one sequence)."""
    order = np.argsort(lengths, kind="stable")
    result, start, tokens = [], 0, 0
    for place, length in enumerate(lengths[order]):
        if tokens + length > _EVAL_TOKENS and place > start:
            result.append(order[start:place])
            start, tokens = place, 0
        tokens += int(length)
    return [*result, order[start:]] if len(order) else []


def _metrics(step: int, losses: list[torch.Tensor], norm: Any, rate: float) -> dict[str, float]:
    """Means since the last call; reading them waits for the device."""
    loss, gradient_norm = float(torch.stack(losses).mean()), float(norm)
    if not np.isfinite([loss, gradient_norm]).all():
        raise TrainingError(
            f"step {step}: found loss {loss} and gradient norm {gradient_norm}, expected finite numbers; "
            "lower the task's learning_rate or raise its warmup_ratio"
        )
    return {"train/loss": loss, "train/gradient_norm": gradient_norm, "train/learning_rate": rate}
