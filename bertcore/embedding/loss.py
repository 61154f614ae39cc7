"""InfoNCE (van den Oord et al. 2018): each anchor must be nearer to its positive than to all other texts of the batch.

P pairs, C candidates: the positives in the order of the anchors, then all hard negatives.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def info_nce(anchors: Tensor, candidates: Tensor, temperature: float, excluded: Tensor | None = None) -> Tensor:
    """(P, H) and (C, H) vectors of any length -> the mean over the anchors of the cross entropy of their cosines over
    `temperature`; the positive of anchor p is candidate p. `excluded` (P, C): candidates that are no negatives."""
    cosines = functional.normalize(anchors, dim=1) @ functional.normalize(candidates, dim=1).T
    logits = cosines / temperature
    if excluded is not None:
        logits = logits.masked_fill(excluded, -torch.inf)
    return functional.cross_entropy(logits, torch.arange(len(anchors), device=logits.device))


def matryoshka(
    anchors: Tensor,
    candidates: Tensor,
    temperature: float,
    dimensions: Sequence[int] = (),
    excluded: Tensor | None = None,
) -> Tensor:
    """The mean of `info_nce` over the whole vectors and over their first numbers, for each of `dimensions` (Kusupati et
    al. 2022, with equal weights). Computed in float32."""
    anchors, candidates = anchors.float(), candidates.float()
    losses = [
        info_nce(anchors[:, :width], candidates[:, :width], temperature, excluded)
        for width in (anchors.shape[1], *dimensions)
    ]
    return torch.stack(losses).mean()


def same_text(anchor_ids: Tensor, candidate_ids: Tensor) -> Tensor:
    """(P,) and (C,) numbers of texts -> (P, C): candidates that are no negatives of an anchor: its own text, that of
    its positive once more, or another positive of the same anchor. Never its own positive itself."""
    count = len(anchor_ids)
    anchors, positives = anchor_ids[:, None] == anchor_ids, candidate_ids[:count, None] == candidate_ids
    same = (candidate_ids == anchor_ids[:, None]) | (anchors.float() @ positives.float() > 0)
    return same & ~torch.eye(*same.shape, dtype=torch.bool, device=same.device)
