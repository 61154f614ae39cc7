"""A fine-tuned model and its ONNX file on the task's own examples: what both score, and batches to calibrate it on."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.apply.finetuned import FineTuned
from bertcore.apply.uses import USES
from bertcore.evaluation.scoring import score
from bertcore.examples import schema
from bertcore.examples.schema import ExampleSet
from bertcore.export.kinds import TOKEN, outputs_of_class
from bertcore.export.onnx import INPUTS, Fed, session_of
from bertcore.finetune.features import Batch, Features
from bertcore.finetune.inference import TOKENS_AT_ONCE, by_length, collected

CALIBRATION = 256
"""Examples, evenly spaced in train: enough to see how large activations become."""
CALIBRATION_TOKENS = 1024
"""At once: all activations of a batch are kept."""


def scores(directory: Path, path: Path, examples: Path) -> dict[str, dict[str, float]]:
    """`model` and `onnx` -> the metrics of the task whose examples stage `examples` has left in `examples`."""
    found = schema.read(examples)
    table, metrics = found.splits["dev"], found.metrics_of("dev")
    model = _tuned(directory, found)
    predicted = model.predict(table, "model")
    per_token = TOKEN in outputs_of_class(model.description.architecture, directory).values()
    logits = onnx_logits(session_of(path), predicted.features, per_token, "onnx")
    predictions = {
        "model": predicted.predictions,
        "onnx": model.family.predict(table, predicted.features, logits, model.model),
    }
    return {name: score(found, table, each.predicted, metrics) for name, each in predictions.items()}


def calibration(directory: Path, examples: Path) -> list[Fed]:
    """Batches of the training examples that stage `examples` has left in `examples`, as the model of `directory` reads
    them."""
    found = schema.read(examples)
    train = found.splits["train"]
    chosen = np.linspace(0, len(train) - 1, min(CALIBRATION, len(train))).astype(np.int64)
    features = _tuned(directory, found).family.featurize(train.take(chosen))
    return [_padded(features.batch(rows)) for rows in by_length(features.lengths, CALIBRATION_TOKENS)]


def _tuned(directory: Path, examples: ExampleSet) -> FineTuned:
    return FineTuned.load(directory, *(name for name, use in USES.items() if use.family == examples.family))


def _padded(batch: Batch) -> Fed:
    layout = batch.layout
    arrays = layout.padded(batch.input_ids), layout.key_mask().long(), layout.padded(batch.token_type_ids)
    return {name: array.numpy() for name, array in zip(INPUTS, arrays, strict=True)}


def onnx_logits(session: Any, features: Features, per_token: bool, progress: str | None = None) -> NDArray[np.float32]:
    """As `logits_of` gives them: (N, …) of all sequences, or (T, …) of all tokens."""
    names = [port.name for port in session.get_inputs()]

    def logits(batch: Batch) -> NDArray[np.float32]:
        fed = _padded(batch)
        outputs = session.run(None, {name: fed[name] for name in names})
        found: NDArray[np.float32] = np.stack(outputs, axis=-1) if len(outputs) > 1 else outputs[0]
        return found.reshape(-1, found.shape[-1])[batch.layout.padded_index.numpy()] if per_token else found

    return collected(features, TOKENS_AT_ONCE["cpu"], logits, progress)
