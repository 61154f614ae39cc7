"""Tags of the words of texts by a model of stage `finetune`: those that its scores are about, with its chain where it
has one. `transformers` reads such a model too, but knows no chain."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from typing import Any, Literal

import pyarrow as pa

from bertcore.apply.finetuned import FineTuned, Predicted
from bertcore.examples.schema import TAGGING
from bertcore.examples.tag_schemes import detect, entities
from bertcore.finetune.tagging import Tagged
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


def tag_words(model: FineTuned, sentences: Sequence[Sequence[str]], progress: str | None = None) -> Tagged:
    """The tags of sentences whose words are known."""
    return _tagged(_predicted(model, sentences, progress))


def _predicted(model: FineTuned, sentences: Sequence[Sequence[str]], progress: str | None) -> Predicted:
    rows = [{"id": str(number), "words": list(words), "tags": None} for number, words in enumerate(sentences)]
    return model.predict(pa.Table.from_pylist(rows, TAGGING), progress)


def _tagged(found: Predicted) -> Tagged:
    assert isinstance(found.predictions, Tagged)
    return found.predictions


def tag(
    model: FineTuned, texts: Sequence[str], words: Words = "marks", progress: str | None = None
) -> list[dict[str, Any]]:
    """For each text its `words`, each with `word`, `tag`, `start` and `end` (characters), and its `entities`, each with
    `text`, `label`, `start` and `end`, as the tags mark them: none where they are such as parts of speech. `cut`:
    whether the model has not seen all of a word."""
    found = [words_of(text, words) for text in texts]
    marks = detect([model.labels or []]) is not None
    predicted = _predicted(model, [[each.word for each in row] for row in found], progress)
    tagged = _tagged(predicted).predicted
    return predicted.with_cut(_row(*each, marks) for each in zip(texts, found, tagged, strict=True))


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
