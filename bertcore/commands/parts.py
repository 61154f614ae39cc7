"""What a model says of the texts of a command, computed part by part, and what is said of that work."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from bertcore.apply.finetuned import UNSEEN, FineTuned
from bertcore.errors import InputError, TextError
from bertcore.examples.bad_rows import has_words

Item = TypeVar("Item", bound=Iterable[str])
Row = TypeVar("Row")
Result = TypeVar("Result")

AT_ONCE = 2**15
"""Texts that are read, computed and written at once. Below it, batches are those of the evaluation, to the last bit."""
_SHOWN_FROM = 32


def in_parts(
    texts: Sequence[Item],
    compute: Callable[[Sequence[Item]], Iterable[Row]],
    check: Callable[[Sequence[Item]], object] = lambda part: None,
    nothing: Row | None = None,
) -> Iterator[tuple[Item, Row]]:
    """Each of `texts` with what `compute` says of it, `AT_ONCE` of them at a time, when `check` has found all of them
    to be usable. `InputError` says which one of several is not. One without a word is not asked about where there is
    `nothing` to say of it: rows keep the numbers of their texts."""
    for _ in _each_part(texts, check, nothing is not None):
        pass
    for places, rows in _each_part(texts, compute, nothing is not None):
        found = iter(rows)
        for place in places:
            text = texts[place]
            yield text, nothing if nothing is not None and not has_words(text) else next(found)


def _each_part(
    texts: Sequence[Item], work: Callable[[Sequence[Item]], Result], of_words: bool
) -> Iterator[tuple[range, Result]]:
    """The places of `AT_ONCE` texts after the other, and the work on them; on those that have words, if `of_words`."""
    for start in range(0, len(texts), AT_ONCE):
        places = range(start, min(start + AT_ONCE, len(texts)))
        asked = [place for place in places if not of_words or has_words(texts[place])]
        try:
            done = work([texts[place] for place in asked])
        except TextError as error:
            which = f"text {asked[error.place] + 1}: " if len(texts) > 1 else ""
            raise InputError(f"{which}{error}") from None
        yield places, done


def say_unseen(model: FineTuned) -> None:
    """What the model did not see of the texts, a line on the standard error for each reason."""
    for reason, said in UNSEEN.items():
        if count := model.unseen[reason]:
            print(f"{said}: {count:,}", file=sys.stderr)


def progress_of(name: str, count: int) -> str | None:
    """The name that work on `count` texts is shown under; None where it is too little to be shown."""
    return name if count > _SHOWN_FROM else None
