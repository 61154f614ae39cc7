"""What comes out of fine-tuning one task."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.compressed import read_json
from bertcore.config import parse
from bertcore.errors import ArtifactError, ConfigError
from bertcore.evaluation.per_example import RECORDS_FILE, Records, Units
from bertcore.files import replace_directory
from bertcore.finetune.config import RunConfig
from bertcore.finetune.crf import CRF
from bertcore.finetune.family import READING, Exported, Predictions
from bertcore.model.architecture import EncoderModule
from bertcore.model.huggingface import save_pretrained

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What one run leaves, and all that its predictions and scores are made from."""

    model: EncoderModule
    """With all that its family trains."""
    logits: dict[str, NDArray[np.float32]]
    """Split -> the logits of its sequences or tokens, for all splits except train."""
    curves: list[dict[str, float]]
    """As in `Result`."""
    best_epoch: int | None
    """Whose weights these are, counted from 1; None where those of the last one were not questioned."""
    steps: int
    tokens: int
    seconds: dict[str, float]
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """As in `Result`."""
    tuned: dict[str, float] = field(default_factory=dict)
    """As in `Result`."""
    dev_units: Units | None = None
    """What each dev example adds to the headline metric; None where dev has no labels."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A fine-tuned model, and what it says about the examples that it has not seen."""

    model: EncoderModule
    model_config: dict[str, Any]
    """The head's own keys of config.json."""
    metrics: dict[str, dict[str, float]]
    """Split -> metric -> value, for the splits with labels except train."""
    predictions: dict[str, Predictions]
    """Split -> predictions, for all splits except train and what is kept back from it."""
    tuned: dict[str, float]
    """What was tuned after the training on what is kept back from train, by the name of the parameter."""
    curves: list[dict[str, float]]
    """`step`, and the mean training loss since the point before, the gradient norm and the learning rate; after the
    last step the metrics on dev (`eval/…`), and after each epoch, where the best one is kept, those that it is chosen
    by (`choice/…`)."""
    counts: dict[str, dict[str, int]]
    """Split -> reason -> number of examples that the model did not see as they are (truncated, in windows …), and under
    `examples` and `sequences` how many there are."""
    best_epoch: int | None
    """The epoch of these weights, counted from 1, where it was chosen; None = the last one."""
    steps: int
    tokens: int
    """Tokens trained on, over all epochs; no padding is among them."""
    seconds: dict[str, float]
    """Time of `train` and of `evaluate`."""

    @classmethod
    def of(
        cls,
        trained: Trained,
        exported: Exported,
        metrics: dict[str, dict[str, float]],
        predictions: dict[str, Predictions],
        tuned: dict[str, float],
        counts: dict[str, dict[str, int]],
    ) -> "Result":
        """The result of a run whose predictions have been made."""
        return cls(
            model=exported.model,
            model_config=exported.config,
            metrics=metrics,
            predictions=predictions,
            tuned=tuned,
            curves=trained.curves,
            counts=counts,
            best_epoch=trained.best_epoch,
            steps=trained.steps,
            tokens=trained.tokens,
            seconds=trained.seconds,
        )

    def save_model(self, directory: Path, tokenizer_directory: Path) -> None:
        """Write the model into `directory` as `transformers` loads it, with the files of the tokenizer."""
        if CRF in self.model_config:
            logger.warning(
                "%s: transformers knows no chain over the tags (crf) and gives other tags with this model than those "
                "scored here; python -m bertcore.apply.tag gives the same",
                directory,
            )
        save_pretrained(self.model, directory, tokenizer_directory, self.model_config)

    def save_predictions(self, directory: Path, records: Records | None = None) -> None:
        """Write the predictions of every split, and `records` where there are some, replacing what `directory` held."""
        with replace_directory(directory) as beside:
            if records is not None:
                records.write(beside / RECORDS_FILE)
            for split, predictions in sorted(self.predictions.items()):
                predictions.write(beside, split)


def saved_task(directory: Path, fields: Sequence[str], **more: Any) -> RunConfig:
    """The `fields` of the task that the model in `directory` was fine-tuned with, as its config.json has them under
    `READING`; `ArtifactError` where one is missing or impossible."""
    path = directory / "config.json"
    found = read_json(path).get(READING)
    if not isinstance(found, dict) or not set(fields) <= set(found):
        raise ArtifactError(
            f"{path}: {READING}: found {found!r}, expected {', '.join(fields)}, which stage finetune saves with its "
            "models; fine-tune the model anew"
        )
    values = {"format": "", "data": str(directory), **{name: found[name] for name in fields}, **more}
    try:
        return parse(RunConfig, values, f"{path}: {READING}")
    except ConfigError as error:
        raise ArtifactError(str(error)) from None
