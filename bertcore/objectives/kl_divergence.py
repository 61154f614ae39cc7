"""How far a student's predictions are from a teacher's: the Kullback-Leibler divergence at a temperature, summed.

At temperature T the probabilities are softmax(logits / T); the divergence is multiplied by T squared, so that its
gradient keeps its size whatever T is (Hinton et al. 2015, section 2).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Rows of logits of the teacher that exist at a time: elsewhere than on the CPU, so that they and what is computed from
# them take little beside the student's.
_CPU_ROWS = 256
_OTHER_ROWS = 4096
# Of these, rows worked on at a time: on the CPU so that they stay in the cache.
_ROWS_IN_CACHE = 8


def kl_divergence(
    student: Tensor, teacher: Callable[[Tensor], Tensor], states: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """(S, V) logits of the student, those behind the first R filling; `teacher(states)` gives (r, V) of the teacher for
    rows of its (R, H) `states` -> the summed divergence of the student from the teacher, times the temperature squared
    (with gradient), and in how many rows both have a most probable class in common.

    The teacher's logits exist a few rows at a time. The student's are used up: do not read them afterwards.
    """
    result: tuple[Tensor, Tensor] = _Divergence.apply(student, teacher, states, temperature)
    return result


class _Divergence(torch.autograd.Function):
    """Writes the gradient over the student's logits in the forward pass, while the teacher's are there."""

    @staticmethod
    def forward(
        ctx: Any, student: Tensor, teacher: Callable[[Tensor], Tensor], states: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        total = torch.zeros((), dtype=torch.float64, device=student.device)
        same = torch.zeros((), dtype=torch.int64, device=student.device)
        on_cpu = student.device.type == "cpu"
        size = _CPU_ROWS if on_cpu else _OTHER_ROWS
        rows_of_student = student[: len(states)]
        for start in range(0, len(states), size):
            expected = teacher(states[start : start + size])
            found = rows_of_student[start : start + size]
            step = _ROWS_IN_CACHE if on_cpu else size
            for first in range(0, len(found), step):
                rows = found[first : first + step]
                loss_sum, agreed, gradient = _of_rows(rows, expected[first : first + step], temperature)
                total += loss_sum
                same += agreed
                if ctx.needs_input_grad[0]:
                    rows.copy_(gradient)
        if ctx.needs_input_grad[0]:
            student[len(states) :] = 0
        ctx.save_for_backward(student)
        ctx.mark_non_differentiable(same)
        return (total * temperature**2).to(wide(student[:0]).dtype), same

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        (result,) = ctx.saved_tensors
        return result.mul_(gradient), None, None, None


def _of_rows(student: Tensor, teacher: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """(R, V) logits of both -> the summed divergence (float64), the rows in which both agree, and the (R, V) gradient
    of the divergence times the temperature squared.

    Of the passes over the logits, which cost more than the product that made them, none is one of torch's slow ones:
    a maximum with its place takes sixteen times as long as one without.
    """
    expected, found = (wide(each) / temperature for each in (teacher, student))
    tops = expected.amax(1, keepdim=True), found.amax(1, keepdim=True)
    same = ((expected == tops[0]) & (found == tops[1])).any(1).sum()
    probabilities, own = expected.softmax(1), found.softmax(1)
    # The logarithms of the sums of exponentials: the highest logit less the logarithm of its probability.
    sums = [top - each.amax(1, keepdim=True).log() for top, each in zip(tops, (probabilities, own), strict=True)]
    apart = expected.sub_(found).add_(sums[1] - sums[0])  # of the logarithms of the probabilities
    # By no product of matrices or vectors, which autocast would round to 16 bits.
    loss_sum = apart.mul_(probabilities).sum(1).sum(dtype=torch.float64)
    return loss_sum, same, own.sub_(probabilities).mul_(temperature)


def wide(logits: Tensor) -> Tensor:
    """16-bit numbers in float32."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
