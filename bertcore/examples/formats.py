"""Every layout that a task's data may have, by the name that `params.yaml` gives as `format`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bertcore.examples import docstrings, glue, squad
from bertcore.examples.schema import ExampleSet


@dataclass(frozen=True)
class Format:
    """One layout."""

    family: str
    """One of `schema.FAMILIES`: which head the task takes."""
    reader: Callable[[Path], ExampleSet]
    """Reads a directory: the task's files under their original names, or for `pydoc/…` that of the corpus."""


FORMATS: dict[str, Format] = {
    "pydoc/topic": Format("classification", docstrings.READERS["topic"]),
    "pydoc/pair": Format("classification", docstrings.READERS["pair"]),
    "pydoc/tagging": Format("tagging", docstrings.READERS["tagging"]),
    "pydoc/qa": Format("question_answering", docstrings.READERS["qa"]),
    **{f"glue/{task}": Format("classification", partial(glue.read, task)) for task in glue.TASKS},
    "squad": Format("question_answering", squad.read),
}
