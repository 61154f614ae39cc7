"""A model's logits for many sequences: in inference mode, in batches of similar length, as large as fit."""

import logging
from collections.abc import Callable

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from bertcore.finetune.features import Batch, Features
from bertcore.model.encoder import EncoderModule
from bertcore.progress import Progress

logger = logging.getLogger(__name__)

TOKENS_AT_ONCE = {"cpu": 8192, "cuda": 2**17}
"""Of a batch, at most. On a CPU any number from 2,048 to 16,384 is equally fast (mini, one core, SQuAD)."""


@torch.inference_mode()
def logits_of(
    model: EncoderModule, features: Features, accelerator: Accelerator, progress: str | None = None
) -> NDArray[np.float32]:
    """The logits of all sequences (or tokens), in their order. Where a batch does not fit, smaller ones are tried.

    `progress`: the name that the work is shown under, counted in tokens; None shows nothing.
    """
    if was_training := model.training:  # the way through all modules takes as long as a layer
        model.eval()

    def logits(batch: Batch) -> NDArray[np.float32]:
        batch = batch.to(accelerator.device)
        with accelerator.autocast():
            return model(batch.input_ids, batch.token_type_ids, batch.layout).float().cpu().numpy()

    size = tokens_at_once(accelerator.device)
    result: NDArray[np.float32] | None = None
    while result is None:
        try:
            result = collected(features, size, logits, progress)
        except torch.OutOfMemoryError:
            if size < features.lengths.max():
                raise
            size //= 2
            torch.cuda.empty_cache()
            logger.info("evaluation: %d tokens at once do not fit; trying %d", 2 * size, size)
    if was_training:
        model.train()
    return result


def collected(
    features: Features, size: int, logits: Callable[[Batch], NDArray[np.float32]], progress: str | None = None
) -> NDArray[np.float32]:
    """The `logits` of all sequences (or tokens), in their order, from batches of at most `size` tokens."""
    result: NDArray[np.float32] | None = None
    shown = Progress(progress or "", len(features.tokens), shown=progress is not None)
    for rows in by_length(features.lengths, size):
        batch = features.batch(rows)
        found = logits(batch)
        if result is None:
            total = len(features.tokens) if len(found) == batch.layout.total else len(features)
            result = np.empty((total, found.shape[1]), dtype=np.float32)
        result[features.places(rows, len(result))] = found
        shown.advance("tokens", steps=batch.layout.total)
    shown.close()
    return np.zeros((0, 1), dtype=np.float32) if result is None else result


def tokens_at_once(device: torch.device) -> int:
    """Of a batch there, at most."""
    return TOKENS_AT_ONCE.get(device.type, TOKENS_AT_ONCE["cpu"])


def by_length(lengths: NDArray[np.int64], tokens_at_once: int) -> list[NDArray[np.int64]]:
    """All sequences from short to long, in batches of at most `tokens_at_once` tokens (or one sequence)."""
    order = np.argsort(lengths, kind="stable")
    result, start, tokens = [], 0, 0
    for place, length in enumerate(lengths[order]):
        if tokens + length > tokens_at_once and place > start:
            result.append(order[start:place])
            start, tokens = place, 0
        tokens += int(length)
    return [*result, order[start:]] if len(order) else []
