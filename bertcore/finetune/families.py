"""The head families by name."""

from bertcore.finetune.classification import Classification
from bertcore.finetune.family import Family
from bertcore.finetune.multi_label import MultiLabel
from bertcore.finetune.multiple_choice import MultipleChoice
from bertcore.finetune.question_answering import QuestionAnswering
from bertcore.finetune.tagging import Tagging

FAMILIES: dict[str, type[Family]] = {
    "classification": Classification,
    "multi_label": MultiLabel,
    "tagging": Tagging,
    "question_answering": QuestionAnswering,
    "multiple_choice": MultipleChoice,
}
"""By the name that an `ExampleSet` has for them; a new one is a file and a row here."""
