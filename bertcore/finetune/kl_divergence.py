"""How far the logits of a fine-tuned student are from its teacher's, as the head families count it."""

from torch import Tensor
from torch.nn import functional


def class_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """(N, C) logits of both -> scalar: the divergence of the student from the teacher, summed, times the temperature
    squared. A class that both hold impossible (minus infinity) adds nothing."""
    own, theirs = ((each.float() / temperature).log_softmax(-1) for each in (logits, teacher_logits))
    terms = theirs.exp() * (theirs - own)
    return terms.masked_fill(theirs.isinf(), 0.0).sum() * temperature**2


def yes_no_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """The same for independent probabilities, one a logit."""
    own, theirs = (each.float() / temperature for each in (logits, teacher_logits))
    expected = theirs.sigmoid()
    cross = functional.binary_cross_entropy_with_logits(own, expected, reduction="sum")
    entropy = functional.binary_cross_entropy_with_logits(theirs, expected, reduction="sum")
    return (cross - entropy) * temperature**2
