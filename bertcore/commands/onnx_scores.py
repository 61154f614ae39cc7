"""What a fine-tuned model scores as it is and as an ONNX file, on the examples that the stage has scored it on."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertcore.apply.directory import USES
from bertcore.apply.finetuned import FineTuned
from bertcore.examples import schema
from bertcore.export.onnx import INPUTS, session_of
from bertcore.export.probe import TOKEN, outputs_of
from bertcore.finetune.features import Features
from bertcore.finetune.inference import by_length
from bertcore.progress import Progress

TOKENS_AT_ONCE = 8192


def scores(directory: Path, path: Path, examples: Path, split: str = "dev") -> dict[str, dict[str, float]]:
    """`model` and `onnx` -> the metrics of the task whose examples stage `examples` has left in `examples`."""
    found = schema.read(examples)
    table, metrics = found.splits[split], found.metrics_of(split)
    uses = [name for name, use in USES.items() if use.family == found.family]
    model = FineTuned.load(directory, *uses)
    features: Features = model.family.featurize(table)
    per_token = TOKEN in outputs_of(model.description.architecture, directory).values()
    logits = onnx_logits(session_of(path), features, per_token, "onnx")
    predictions = {
        "model": model.predict(table, "model").predictions,
        "onnx": model.family.predict(table, features, logits, model.model),
    }
    return {name: each.score(metrics) for name, each in predictions.items()}


def onnx_logits(session: Any, features: Features, per_token: bool, progress: str | None = None) -> NDArray[np.float32]:
    """As `logits_of` gives them: (N, …) of all sequences, or (T, …) of all tokens."""
    names = [port.name for port in session.get_inputs()]
    result: NDArray[np.float32] | None = None
    shown = Progress(progress or "", len(features.tokens), shown=progress is not None)
    for rows in by_length(features.lengths, TOKENS_AT_ONCE):
        batch = features.batch(rows)
        layout = batch.layout
        places = layout.padded_index.numpy()
        shape = (layout.batch_size, layout.max_length)
        padded = {name: np.zeros(layout.batch_size * layout.max_length, dtype=np.int64) for name in INPUTS}
        for name, values in zip(INPUTS, (batch.input_ids, torch.ones(layout.total), batch.token_type_ids), strict=True):
            padded[name][places] = values.numpy()
        outputs = session.run(None, {name: padded[name].reshape(shape) for name in names})
        logits = np.stack(outputs, axis=-1) if len(outputs) > 1 else outputs[0]
        if per_token:
            logits = logits.reshape(-1, logits.shape[-1])[places]
        if result is None:
            result = np.empty((len(features.tokens) if per_token else len(features), logits.shape[1]), np.float32)
        result[features.token_rows(rows) if per_token else rows] = logits
        shown.advance(steps=layout.total)
    shown.close()
    assert result is not None, "no examples"
    return result
