"""One task, learned by a linear model from train, and what it says of dev."""

from collections.abc import Callable
from typing import Any

from bertcore.errors import InputError
from bertcore.examples.schema import ExampleSet
from bertcore.linear import questions, tagging, texts


def predict(examples: ExampleSet, seed: int = 1) -> Any:
    """What is said of dev, as `bertcore.evaluation.scoring` takes it; `InputError` where there is a `refusal`. The same
    examples and seed give the same on one kind of processor."""
    if reason := refusal(examples):
        raise InputError(reason)
    return MODELS[examples.family](examples, seed)


def refusal(examples: ExampleSet) -> str | None:
    """Why there is no linear model for the task; None where there is one."""
    if examples.family not in MODELS:
        return f"found the family {examples.family}, expected one of {', '.join(MODELS)}; leave it out"
    if examples.family == "question_answering":
        without = sum(not each for split in ("train", "dev") for each in examples.splits[split]["answers"].to_pylist())
        if without:
            return f"found {without} questions without an answer, expected one to each, as in SQuAD 1.1; leave it out"
    return texts.too_few(examples) if MODELS[examples.family] is texts.labels else None


MODELS: dict[str, Callable[[ExampleSet, int], Any]] = {
    "classification": texts.labels,
    "multi_label": texts.labels,
    "tagging": tagging.tags,
    "question_answering": questions.answers,
}
"""By the head family."""
