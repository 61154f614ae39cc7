"""One micro-batch of pre-training, as tensors: what the objectives and the training loop pass to the model."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertcore.model.layout import Layout, moved, rounded


@dataclass(frozen=True, kw_only=True)
class PreTrainingBatch:
    """B sequences of T tokens in all, M of them masked; the tokens lie end to end without padding."""

    input_ids: Tensor
    """(T,) int64: token ids, masked positions already replaced by the 80/10/10 rule."""
    token_type_ids: Tensor
    """(T,) int64: 0 in sentence A, 1 in sentence B."""
    layout: Layout
    """Where each sequence begins and ends."""
    masked_positions: Tensor
    """(M',) int64: flat indices into the T tokens. The first M count, the rest fill up to a `rounded_up` number."""
    masked_labels: Tensor
    """(M,) int64: the original ids at those positions; M may be 0."""
    next_sentence_labels: Tensor | None
    """(B,) int64: 0 if B follows A in its document, 1 if it is random, or the two are swapped (Hugging Face's
    convention); or None."""
    masked_draws: Tensor | None = None
    """(M,) float64 in [0, 1): a random number for each masked token, a pure function of the training's seed, the step,
    the place of the sequence in the global batch and that of the token in it; None where nobody draws."""
    sequence_draws: Tensor | None = None
    """(B,) float64 in [0, 1): one for each sequence, likewise."""
    displaced: Tensor | None = None
    """(T,) bool: which tokens stand in the place of another one; None where all stand where they belong."""
    causal_predictions: int = 0
    """How many of the M, the last ones, are predictions of the next token: their position is that of the token before
    the predicted one."""

    @property
    def num_predictions(self) -> int:
        """M."""
        return len(self.masked_labels)

    @property
    def counted_positions(self) -> Tensor:
        """(M,) those of `masked_positions` that count."""
        return self.masked_positions[: self.num_predictions]

    @classmethod
    def from_numpy(
        cls,
        *,
        input_ids: NDArray[np.integer],
        token_type_ids: NDArray[np.integer],
        lengths: NDArray[np.integer],
        masked_positions: NDArray[np.integer],
        masked_labels: NDArray[np.integer],
        next_sentence_labels: NDArray[np.integer] | None = None,
        masked_draws: NDArray[np.float64] | None = None,
        sequence_draws: NDArray[np.float64] | None = None,
    ) -> "PreTrainingBatch":
        """From the arrays of the data loader: as the fields, any integer type, with `lengths` (B,) for the layout."""
        total = int(lengths.sum())
        assert len(input_ids) == len(token_type_ids) == total, f"{len(input_ids)} tokens, lengths sum to {total}"
        masked = len(masked_positions)
        assert masked == len(masked_labels), f"{masked} masked positions, {len(masked_labels)} labels"
        return cls(
            input_ids=_tensor(input_ids),
            token_type_ids=_tensor(token_type_ids),
            layout=Layout.from_lengths(_tensor(lengths)),
            masked_positions=rounded(_tensor(masked_positions)),
            masked_labels=_tensor(masked_labels),
            next_sentence_labels=None if next_sentence_labels is None else _tensor(next_sentence_labels),
            masked_draws=None if masked_draws is None else torch.from_numpy(masked_draws),
            sequence_draws=None if sequence_draws is None else torch.from_numpy(sequence_draws),
        )

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "PreTrainingBatch":
        """The same batch with its tensors on `device`."""
        return moved(self, device, non_blocking)


def _tensor(array: NDArray[np.integer]) -> Tensor:
    # The arrays may be read-only views of a memory-mapped shard, which torch would warn about: always a copy.
    return torch.from_numpy(array.astype(np.int64, copy=True))
