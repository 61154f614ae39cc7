"""What comes out of fine-tuning one task."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcore.files import replace_directory
from bertcore.finetune.family import Predictions
from bertcore.model.bert import BertModule
from bertcore.model.huggingface import save_pretrained


@dataclass(frozen=True, kw_only=True)
class Result:
    """A fine-tuned model, and what it says about the examples that it has not seen."""

    model: BertModule
    model_config: dict[str, Any]
    """The head's own keys of config.json."""
    metrics: dict[str, dict[str, float]]
    """Split -> metric -> value, for the splits with labels except train."""
    predictions: dict[str, Predictions]
    """Split -> predictions, for all splits except train."""
    curves: list[dict[str, float]]
    """`step`, and the mean training loss since the point before, the gradient norm and the learning rate; in the last
    one the metrics on dev."""
    counts: dict[str, dict[str, int]]
    """Split -> reason -> number of examples that the model did not see as they are (truncated, in windows …), and under
    `examples` and `sequences` how many there are."""
    steps: int
    tokens: int
    """Tokens trained on, over all epochs; no padding is among them."""
    seconds: dict[str, float]
    """Time of `train` and of `evaluate`."""

    def save_model(self, directory: Path, tokenizer_directory: Path) -> None:
        """`directory` as `transformers` loads it, with the files of the tokenizer."""
        save_pretrained(self.model, directory, tokenizer_directory, self.model_config)

    def save_predictions(self, directory: Path) -> None:
        """The predictions of every split, replacing what `directory` held."""
        with replace_directory(directory) as beside:
            for split, predictions in sorted(self.predictions.items()):
                predictions.write(beside, split)
