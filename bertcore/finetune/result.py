"""What comes out of fine-tuning one task."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.evaluation.per_example import RECORDS_FILE, Records, Units
from bertcore.files import replace_directory
from bertcore.finetune.family import Predictions
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import CRF, save_pretrained

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What one run leaves, and all that its predictions and scores are made from."""

    model: EncoderModule
    """With all that its family trains."""
    logits: dict[str, NDArray[np.float32]]
    """Split -> the logits of its sequences or tokens, for all splits except train."""
    metrics: dict[str, dict[str, float]]
    """Split -> metric -> value, for the splits with labels except train."""
    tuned: dict[str, float]
    """What was tuned after the training on what is kept back from train, by the name of the parameter."""
    curves: list[dict[str, float]]
    """`step`, and the mean training loss since the point before, the gradient norm and the learning rate; after the
    last step the metrics on dev (`eval/…`), and after each epoch, where the best one is kept, those that it is chosen
    by (`choice/…`)."""
    best_epoch: int | None
    """The epoch whose weights were kept, counted from 1; None where none was chosen: the last one's."""
    steps: int
    tokens: int
    """Tokens trained on, over all epochs; no padding is among them."""
    seconds: dict[str, float]
    """Time of `train` and of `evaluate`."""
    dev_units: Units | None
    """What each dev example adds to the headline metric; None where dev has no labels."""


@dataclass(frozen=True, kw_only=True)
class Result(Trained):
    """A run with its model as it is saved, and what that says about the examples that it has not seen."""

    model_config: dict[str, Any]
    """The head's own keys of config.json."""
    predictions: dict[str, Predictions]
    """Split -> predictions, for all splits except train and what is kept back from it."""

    def save_model(self, directory: Path, tokenizer_directory: Path, card: str | None = None) -> None:
        """Write the model into `directory` as `transformers` loads it, with the files of the tokenizer and its
        card."""
        if CRF in self.model_config:
            logger.warning(
                "%s: transformers knows no chain over the tags (crf) and gives other tags with this model than those "
                "scored here; bertcore tag gives the same",
                directory,
            )
        save_pretrained(self.model, directory, tokenizer_directory, self.model_config, card)

    def save_predictions(self, directory: Path, records: Records | None = None) -> None:
        """Write the predictions of every split, and `records` where there are some, replacing what `directory` held."""
        with replace_directory(directory) as beside:
            if records is not None:
                records.write(beside / RECORDS_FILE)
            for split, predictions in sorted(self.predictions.items()):
                predictions.write(beside, split)
