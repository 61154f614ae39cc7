"""The report's table of students beside their teachers: of a pre-training that is distilled, and of tasks that are."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertcore.evaluation.systems import PRETRAINED_WEIGHTS
from tasks import params
from tasks.reporting.comparison import readable
from tasks.reporting.document import NOTHING, Table, count, percent
from tasks.reporting.measurements import Measurements

NOTE = (
    "A student has learned while pre-training, from a teacher that is scored where a task of the same data begins from "
    "it (`init_from`), or in its task, from the labels and a teacher's logits (`distillation`). Kept is its score over "
    "the teacher's. The speeds are of inference alone on the same examples, beside whatever else the machine did."
)
_HEADER = ("Task", "Metric", "Student", "Teacher", "Kept", "Parameters", "of the teacher")
_SPEEDS = ("Examples/s", "by the teacher")
_DATA = ("format", "data", "options", "max_train_examples")
"""What two tasks have in common whose scores can be compared."""


def students(measurements: Measurements, values: Mapping[str, Any]) -> Table:
    """`values`: params.yaml, completed by its recipe."""
    rows = [_of_pretraining(measurements, *pair) for pair in _pairs(values)]
    rows += [_of_task(measurements, task) for task in measurements.tasks if _is_distilled(measurements, task)]
    return Table((*_HEADER, *_SPEEDS), rows, left=("Metric",), strong="Kept", caption="Students and teachers")


def _pairs(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Tasks of the pre-trained student, each with one of its teacher's."""
    pretrain, entries = values.get("pretrain") or {}, params.task_entries(values)
    teacher = (pretrain.get("objective_options") or {}).get("teacher")
    if pretrain.get("objective") != "distillation" or teacher is None:
        return
    begun = {name: entry.get("init_from") for name, entry in entries.items()}
    of_teacher = [name for name, place in begun.items() if place is not None and Path(place) == Path(teacher)]
    for task in (name for name, place in begun.items() if place is None):
        for other in of_teacher:
            if all(entries[task].get(key) == entries[other].get(key) for key in _DATA):
                yield task, other


def _of_pretraining(measurements: Measurements, student: str, teacher: str) -> list[str]:
    headline = measurements.word(f"finetune/{student}", "metrics", "0")
    scores, sizes, speeds = [], [], []
    for task in (student, teacher):
        scores.append(measurements.number(f"finetune/{task}", PRETRAINED_WEIGHTS, headline))
        sizes.append(measurements.number(f"finetune/{task}", "", "parameters"))
        speeds.append(measurements.numbers(f"timing/finetune/{task}").get("examples_per_second"))
    return _row(student, headline, scores, sizes, speeds)


def _is_distilled(measurements: Measurements, task: str) -> bool:
    return measurements.has(f"finetune/{task}", "distillation")


def _of_task(measurements: Measurements, task: str) -> list[str]:
    source = f"finetune/{task}"
    headline = measurements.word(source, "metrics", "0")
    scores = [measurements.number(source, group, headline) for group in (PRETRAINED_WEIGHTS, "distillation/teacher")]
    sizes = [measurements.number(source, "distillation", name) for name in ("parameters", "teacher_parameters")]
    speeds = measurements.numbers(f"timing/{source}", "distillation")
    names = ("examples_per_second", "teacher_examples_per_second")
    return _row(task, headline, scores, sizes, [speeds.get(name) for name in names])


def _row(task: str, metric: str, scores: list[float], sizes: list[float], speeds: list[float | None]) -> list[str]:
    """Of a student, and of its teacher behind it."""
    student, teacher = scores
    kept = f"{percent(student / teacher)} %" if teacher > 0 else NOTHING
    shown = [NOTHING if speed is None else count(speed) for speed in speeds]
    return [task, readable(metric), *map(percent, scores), kept, *map(count, sizes), *shown]
