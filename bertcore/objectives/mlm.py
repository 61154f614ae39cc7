"""Masked language modelling: the original token at each masked position (Devlin et al. 2018, section 3.1)."""

from torch import Tensor

from bertcore.objectives.cross_entropy import cross_entropy
from bertcore.objectives.sums import Sums


def masked_language_modeling(mlm_logits: Tensor, masked_labels: Tensor) -> Sums:
    """(M', V) logits and (M,) original ids -> sums over the first M positions. The logits are used up."""
    loss_sum, correct = cross_entropy(mlm_logits, masked_labels)
    return Sums(loss_sum=loss_sum, count=len(masked_labels), correct=correct)
