"""The head families by the name that an `ExampleSet` has for them; a new family is a file and a row here."""

from collections.abc import Callable

from tokenizers import Tokenizer

from bertcore.examples.schema import ExampleSet
from bertcore.finetune.classification import Classification
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import Family
from bertcore.finetune.multi_label import MultiLabel
from bertcore.finetune.question_answering import QuestionAnswering
from bertcore.finetune.tagging import Tagging

FAMILIES: dict[str, Callable[[RunConfig, ExampleSet, Tokenizer], Family]] = {
    "classification": Classification,
    "multi_label": MultiLabel,
    "tagging": Tagging,
    "question_answering": QuestionAnswering,
}
