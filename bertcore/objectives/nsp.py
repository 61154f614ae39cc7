"""Next sentence prediction: does sentence B follow A in its document (Devlin et al. 2018, section 3.1)."""

from torch import Tensor

from bertcore.objectives.cross_entropy import cross_entropy
from bertcore.objectives.sums import Sums


def next_sentence_prediction(nsp_logits: Tensor, next_sentence_labels: Tensor) -> Sums:
    """(B, 2) logits and (B,) labels, 1 = random -> sums over the B sequences. The logits are used up."""
    loss_sum, correct = cross_entropy(nsp_logits, next_sentence_labels)
    return Sums(loss_sum=loss_sum, count=len(next_sentence_labels), correct=correct)
