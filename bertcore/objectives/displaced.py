"""Masked language modelling, repeated tokens, and for every visible token whether it stands where it belongs.

While training, some tokens of a sequence change places, half of them with their neighbour, the others among each other.
Masked tokens alone teach the order of words late; a few million tokens of this are enough to see it (Wang et al. 2020,
StructBERT: word order; Panda et al. 2021: shuffled tokens detected). No word is added or lost, so that words tell
nothing, and what is predicted at masked places sees the same ones. Held-out text is left as it is.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from bertcore import draws
from bertcore.config import within
from bertcore.model.encoder import EncoderModule, scores
from bertcore.model.initialization import initialize
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.objective import ObjectiveRow, Sums, binary_sums, require_weights
from bertcore.objectives.repeats import RepeatedTokens, RepeatsOptions, visible


@dataclass(frozen=True, kw_only=True)
class DisplacedOptions(RepeatsOptions):
    """`pretrain.objective_options` of objective `mlm_repeats_displaced`."""

    displaced_weight: float = 3.0
    """Of the tokens of which is asked whether they stand where they belong."""
    displaced_share: float = 0.15
    """Of the unmasked tokens: those that are to change places. A sixth to a quarter of them does not: neighbours of
    masked ones stay, and equal tokens that are exchanged are no change."""

    def __post_init__(self) -> None:
        require_weights(self, "mlm_weight", "repeats_weight", "displaced_weight")
        within(self, "displaced_share", "a share above 0 and at most 0.5, such as 0.15", above=0, most=0.5)


class DisplacedTokens(RepeatedTokens):
    """As `RepeatedTokens`, and which tokens have changed places (`displaced`)."""

    def __init__(self, model: EncoderModule, options: DisplacedOptions) -> None:
        super().__init__(model, options)
        self.weights = {**self.weights, "displaced": options.displaced_weight}
        self.displaced_head = nn.Linear(model.config.hidden_size, 1)
        self._share = options.displaced_share
        initialize(self.displaced_head, model.config)

    def arranged(self, batch: PreTrainingBatch) -> PreTrainingBatch:
        return with_displaced(batch, self._share)

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        counts = super().counts(batch)
        return counts if batch.displaced is None else {**counts, "displaced": counts["repeats"]}

    def of_visible(self, hidden: Tensor, batch: PreTrainingBatch, seen: Tensor, asked: Tensor) -> dict[str, Sums]:
        terms = super().of_visible(hidden, batch, seen, asked)
        if batch.displaced is not None:
            logits = scores(self.displaced_head, hidden).squeeze(1).index_select(0, asked)
            terms["displaced"] = binary_sums(logits, batch.displaced.index_select(0, asked))
        return terms

    def further_flops(self, batch: PreTrainingBatch) -> int:
        head = 0 if batch.displaced is None else 2 * batch.layout.total * self.displaced_head.in_features
        return super().further_flops(batch) + head


def with_displaced(batch: PreTrainingBatch, share: float) -> PreTrainingBatch:
    """About `share` of the visible tokens in the place of others of their sequence, and which those are; a pure
    function of `sequence_draws`. Tokens that begin or end a sequence, wherever they stand, keep their places."""
    assert batch.sequence_draws is not None, "a batch without draws for its sequences"
    ids, layout = batch.input_ids.numpy(), batch.layout
    sequence, place = layout.sequences.numpy(), layout.position_ids.numpy()
    stream = (batch.sequence_draws.numpy() * 2.0**53).astype(np.uint64)[sequence]
    drawn, order = (draws.uniform(stream, (2 * place + purpose).astype(np.uint64)) for purpose in range(2))
    ends = ids[torch.cat([layout.first_tokens, layout.cumulative[1:] - 1]).numpy()]
    movable = visible(batch).numpy() & ~np.isin(ids, ends)

    own = np.arange(len(ids))
    source = own.copy()
    first = movable & (drawn < share / 4)
    first[:-1] &= movable[1:] & (sequence[1:] == sequence[:-1])
    first[-1:] = False
    first[1:] &= ~first[:-1]
    left = first.nonzero()[0]
    source[left], source[left + 1] = left + 1, left

    far = (movable & (drawn >= 1 - share / 2) & (source == own)).nonzero()[0]
    far = far[np.lexsort((order[far], sequence[far]))]
    last = np.diff(sequence[far], append=-1).nonzero()[0]  # of each sequence; the first one comes behind it
    following = np.roll(far, -1)
    following[last] = far[np.concatenate([[0], last[:-1] + 1])[: len(last)]]
    source[far] = following

    moved = ids[source]
    return replace(
        batch,
        input_ids=torch.from_numpy(moved),
        displaced=torch.from_numpy(moved != ids),
        masked_draws=None,
        sequence_draws=None,
    )


MLM_REPEATS_DISPLACED = ObjectiveRow(
    options=DisplacedOptions, build=DisplacedTokens, packings=("full_sentences", "doc_sentences")
)
