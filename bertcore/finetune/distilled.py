"""A distilled model beside its teacher: scores, sizes and speeds on the same examples."""

from dataclasses import dataclass

from bertcore.finetune.grid import Outcome
from bertcore.finetune.run import Finetuning

_PASSES = 3
"""Over all dev examples, of which the fastest counts: the first one warms up, and other programs may disturb one."""


@dataclass(frozen=True)
class Distilled:
    """What was kept of the teacher, and what was saved."""

    teacher: dict[str, float]
    """Metric -> the teacher's score on dev."""
    sizes: dict[str, float]
    """`parameters` and `teacher_parameters`; and `kept`, the student's median of the headline metric over the teacher's
    score, where that is above 0."""
    speeds: dict[str, float]
    """Dev examples per second: `examples_per_second`, `teacher_examples_per_second`."""


def compare_with_teacher(finetuning: Finetuning, student: Outcome) -> Distilled | None:
    """None where the task has no teacher."""
    if (teacher := finetuning.teacher) is None:
        return None
    model, headline, count = student.result.model, finetuning.headline, finetuning.counts["dev"]["examples"]
    scores = finetuning.scored(teacher)
    own, theirs = (min(finetuning.seconds_of_dev(each) for _ in range(_PASSES)) for each in (model, teacher))
    models = {"parameters": model, "teacher_parameters": teacher}
    sizes: dict[str, float] = {name: each.num_parameters() for name, each in models.items()}
    if scores[headline] > 0:
        sizes["kept"] = student.metrics["dev"][headline] / scores[headline]
    speeds = {"examples_per_second": count / own, "teacher_examples_per_second": count / theirs}
    return Distilled(scores, sizes, {name: float(f"{value:.4g}") for name, value in speeds.items()})
