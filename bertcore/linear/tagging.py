"""Tags of words, each from the words beside it, its shape and its ends."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from scipy import sparse

from bertcore.examples.schema import ExampleSet
from bertcore.linear.features import around, classifier, hashed, shape

REACH = 2
"""Words on either side that are seen."""


def tags(examples: ExampleSet, seed: int) -> list[list[str]]:
    """Of each word of dev."""
    train, dev = examples.splits["train"], examples.splits["dev"]
    known = [tag for of_sentence in train["tags"].to_pylist() for tag in of_sentence]
    if len(set(known)) == 1:
        return [known[:1] * len(words) for words in dev["words"].to_pylist()]
    found = iter(classifier(seed).fit(_features(train), known).predict(_features(dev)).tolist())
    return [[next(found) for _ in words] for words in dev["words"].to_pylist()]


def _features(table: pa.Table) -> sparse.csr_matrix:
    sentences = table["words"].to_pylist()
    return hashed(_of_word(words, place) for words in sentences for place in range(len(words)))


def _of_word(words: Sequence[str], place: int) -> Iterator[str]:
    near = around(words, place, REACH)
    lower = [word.lower() for word in near]
    before, own, after = lower[REACH - 1 : REACH + 2]
    yield from (f"word {offset} {word}" for offset, word in enumerate(lower))
    yield from (f"shape {offset} {shape(word)}" for offset, word in enumerate(near[REACH - 1 : REACH + 2]))
    yield from (f"begins {own[:length]}" for length in (1, 2, 3, 4))
    yield from (f"ends {own[-length:]}" for length in (1, 2, 3, 4))
    yield f"before {before} {own}"
    yield f"after {own} {after}"
