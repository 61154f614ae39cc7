"""The head families by the name that an `ExampleSet` has for them; a new family is a file and a row here."""

from collections.abc import Callable

from tokenizers import Tokenizer

from bertcore.examples.schema import ExampleSet
from bertcore.finetune.classification import Classification
from bertcore.finetune.config import TaskConfig
from bertcore.finetune.family import Family
from bertcore.finetune.question_answering import QuestionAnswering
from bertcore.finetune.tagging import Tagging

FAMILIES: dict[str, Callable[[TaskConfig, ExampleSet, Tokenizer], Family]] = {
    "classification": Classification,
    "tagging": Tagging,
    "question_answering": QuestionAnswering,
}
