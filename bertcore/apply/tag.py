"""Tags of the words of texts by a model of stage `finetune`: those that its scores are about, with its chain where it
has one. `transformers` reads such a model too, but knows no chain."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from typing import Any, Literal

import pyarrow as pa

from bertcore.apply.finetuned import FineTuned
from bertcore.examples.schema import TAGGING
from bertcore.examples.tag_schemes import detect, entities
from bertcore.words import letter, sign

Words = Literal["marks", "blanks"]
"""Where words end: at blanks and marks, so that a full stop is a word of its own, or at blanks alone."""


@cache
def _word(words: Words) -> re.Pattern[str]:
    if words == "blanks":
        return re.compile(r"\S+")
    return re.compile(rf"\w{letter()}*(?:[.'’-]{letter()}+)*|{sign()}")


@dataclass(frozen=True)
class Word:
    """A word of a text."""

    word: str
    start: int
    """Characters before it."""
    end: int


def words_of(text: str, words: Words = "marks") -> list[Word]:
    """The words of `text`, with their places."""
    return [Word(found.group(), found.start(), found.end()) for found in _word(words).finditer(text)]


def count_words(texts: Iterable[str], most: int) -> int:
    """How many `words_of` finds in all `texts`, or `most` where there are more: it looks no further."""
    return sum(1 for _ in islice(chain.from_iterable(map(_word("marks").finditer, texts)), most))


def tag(
    model: FineTuned, texts: Sequence[str], words: Words = "marks", progress: str | None = None
) -> list[dict[str, Any]]:
    """For each text its `words`, each with `word`, `tag`, `start` and `end` (characters), and its `entities`, each with
    `text`, `label`, `start` and `end`, as the tags mark them: none where they are such as parts of speech. `cut`:
    whether the model has not seen all of a word."""
    found = [words_of(text, words) for text in texts]
    marks = detect([model.labels or []]) is not None
    rows = [{"id": str(number), "words": [each.word for each in row]} for number, row in enumerate(found)]
    said = model.predict(pa.Table.from_pylist(rows, TAGGING), progress)
    tags = said.predictions.predicted
    return said.with_cut(_row(*each, marks) for each in zip(texts, found, tags, strict=True))


def _row(text: str, words: list[Word], tags: list[str], marks: bool) -> dict[str, Any]:
    tagged = [
        {"word": word.word, "tag": name, "start": word.start, "end": word.end}
        for word, name in zip(words, tags, strict=True)
    ]
    marked = entities(tags) if marks else []
    spans = [(label, words[first].start, words[end - 1].end) for label, first, end in marked]
    return {
        "words": tagged,
        "entities": [
            {"text": text[start:end], "label": label, "start": start, "end": end} for label, start, end in spans
        ],
    }
