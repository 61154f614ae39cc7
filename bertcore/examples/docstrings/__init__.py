"""The four tasks that are made from the documentation strings in `data/corpus`, one for each input of BERT's paper.

Split by document: dev examples come from the held-out modules, which pre-training never saw.
"""

from collections.abc import Callable
from pathlib import Path

from bertcore.examples.docstrings.pair import read_pair
from bertcore.examples.docstrings.questions import read_qa
from bertcore.examples.docstrings.tagging import read_tagging
from bertcore.examples.docstrings.topic import read_topic
from bertcore.examples.schema import ExampleSet

READERS: dict[str, Callable[[Path], ExampleSet]] = {
    "topic": read_topic,
    "pair": read_pair,
    "tagging": read_tagging,
    "qa": read_qa,
}
