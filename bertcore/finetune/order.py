"""Which sequences are computed together, in training and in evaluation."""

import numpy as np
from numpy.typing import NDArray

from bertcore import draws
from bertcore.finetune.config import RunConfig

_GROUPED = 50
"""Batches whose sequences are sorted by length among themselves, as in Hugging Face's `group_by_length`."""


def batches(lengths: NDArray[np.int64], task: RunConfig) -> list[NDArray[np.int64]]:
    """The sequences of every step of a run, a pure function of (seed, epoch) for each epoch."""
    return [rows for epoch in range(task.epochs) for rows in _epoch(lengths, task, epoch)]


def _epoch(lengths: NDArray[np.int64], task: RunConfig, epoch: int) -> list[NDArray[np.int64]]:
    order = draws.permutation(draws.key("finetune", task.seed, epoch), len(lengths))
    if task.group_by_length:
        size = _GROUPED * task.batch_size
        parts = (order[start : start + size] for start in range(0, len(order), size))
        order = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts])
    found = [order[start : start + task.batch_size] for start in range(0, len(order), task.batch_size)]
    if task.group_by_length:  # sorted batches in a random order, so that lengths do not rise and fall with the steps
        shuffled = draws.permutation(draws.key("finetune batches", task.seed, epoch), len(found))
        found = [found[place] for place in shuffled]
    return found


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
