"""How far a student's predictions are from a teacher's: the Kullback-Leibler divergence at a temperature, summed.

At temperature T the probabilities are softmax(logits / T); the divergence is multiplied by T squared, so that its
gradient keeps its size whatever T is (Hinton et al. 2015, section 2).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Rows of logits worked on at a time: on the CPU so that they stay in the cache, elsewhere so that the teacher's logits
# and what is computed from both take little beside the student's.
CHUNK_ROWS = {"cpu": 64}
_OTHER_ROWS = 4096


def divergence(
    student: Tensor, teacher: Callable[[Tensor], Tensor], states: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """(R, V) logits of the student; `teacher(states)` gives (r, V) of the teacher for rows of its (R, H) `states` ->
    the summed divergence of the student from the teacher, times the temperature squared (with gradient), and in how
    many rows both have the same most probable class.

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
        size = CHUNK_ROWS.get(student.device.type, _OTHER_ROWS)
        for start in range(0, len(student), size):
            rows = slice(start, start + size)
            expected, found = wide(teacher(states[rows])), wide(student[rows])
            same += (expected.argmax(1) == found.argmax(1)).sum()
            expected, found = ((each / temperature).log_softmax(1) for each in (expected, found))
            probabilities = expected.exp()
            total += (probabilities * expected.sub_(found)).sum(dtype=torch.float64)
            if ctx.needs_input_grad[0]:
                student[rows] = found.exp_().sub_(probabilities).mul_(temperature).to(student.dtype)
        ctx.save_for_backward(student)
        ctx.mark_non_differentiable(same)
        return (total * temperature**2).to(wide(student[:0]).dtype), same

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        (result,) = ctx.saved_tensors
        return result.mul_(gradient), None, None, None


def wide(logits: Tensor) -> Tensor:
    """16-bit numbers in float32."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
