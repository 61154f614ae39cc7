"""Minimal pairs from held-out sentences of the corpus, so that a first run has some without any download.

One word of a sentence is changed, or the order of two, so that what stood there is right and the other is not, or is
much less likely. Which ones depends on the text alone, not on the tokenizer. Nothing but the context tells:

* both sentences have as many words;
* every contrast is asked in both directions equally often, and a word is replaced by a rarer one as often as by a more
  frequent one;
* in half of the pairs the changed sentence has the more likely neighbours. (`a` and `an` are left out of this: there
  the next word says all.)
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertcore import draws
from bertcore.corpus.documents import RowGroup, corpus_shards, row_groups
from bertcore.minimal_pairs.ngrams import Ids, Ngrams
from bertcore.minimal_pairs.pairs import Pair

WORDS, CHARACTERS = range(6, 21), 300
"""Words of a sentence that is used, and its characters at most: an address can have more tokens than a model reads."""
SENTENCES = 20_000
"""That are changed at most, which takes some 50 KB each: ten times as many as there will be pairs."""
PAIRS = {"word order": 500, "word in context": 500}
"""Of these paradigms, at most."""
CONTRAST_PAIRS = 200
"""Of each contrast, at most."""
FEWEST = 40
"""Of each paradigm; of fewer nothing could be said."""
LEAST_COUNT = 100
"""Occurrences in the training text of a word that is replaced, or that replaces another."""
NEIGHBOURS = 8
"""How far a word's substitute stands from it in the list of words by frequency, at most."""
MOST_DIFFERENT = 1.25
"""How many times as often the more frequent of the two may occur."""
COUNTED_BYTES = 200_000_000
"""Of the training text, in which words are counted."""
PUNCTUATION = r"([!-/:-@\[-`{-~])"
"""A word of its own where words are counted, as for BERT's tokenizer."""

Contrasts = dict[str, list[tuple[str, str]]]
"""Phenomenon -> words that the grammar of a language does not let stand for each other."""

CONTRASTS: dict[str, Contrasts] = {
    "en": {
        "indefinite article": [("a", "an")],
        "number agreement": [
            ("is", "are"),
            ("was", "were"),
            ("has", "have"),
            ("does", "do"),
            ("this", "these"),
            ("that", "those"),
        ],
    }
}
"""By the language's code. Word order and words in context are asked of every language."""

_TIE = 1e-9
"""Nats by which neighbours do not speak for either sentence."""

LOCAL = ("indefinite article",)
"""Phenomena that a neighbour decides."""


@dataclass(frozen=True)
class Sentence:
    """A sentence, and the places of the words that stand alone: in small letters, no mark attached, not the first."""

    words: tuple[str, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> "Sentence":
        words = text.split()
        return cls(tuple(words), tuple(place for place in range(1, len(words)) if _is_plain(words[place])))

    def draw(self, *purpose: object) -> int:
        """64 bits that depend on the sentence and the purpose alone."""
        return draws.key("minimal pairs", *map(str, purpose), *self.words)


@dataclass(frozen=True)
class Change:
    """What might be done to a sentence."""

    sentence: Sentence
    paradigm: str
    phenomenon: str
    direction: str
    """Each direction of a paradigm gets as many pairs as the others."""
    words: tuple[str, ...]
    """Of the changed sentence."""

    @property
    def pair(self) -> Pair:
        return Pair(" ".join(self.sentence.words), " ".join(self.words), self.paradigm, self.phenomenon)


Cell = tuple[str, str]
"""A paradigm; the direction of the change, and whether its neighbours speak for it."""


def make_pairs(corpus: Path, language: str) -> list[Pair]:
    """The pairs of a corpus, by paradigm, in an order that has no meaning; no sentence is used twice. Its language, as
    `corpus.language` has it, decides which contrasts are asked."""
    contrasts = CONTRASTS.get(language, {})
    contrast_of = _by_word(contrasts)
    train = list(row_groups(corpus_shards(corpus, "train")))
    sentences, counts = _read(row_groups(corpus_shards(corpus, "heldout")), train)
    substitutes = _substitutes(counts)
    changes = [change for sentence in sentences for change in _changes(sentence, substitutes, contrast_of)]
    if not changes:
        return []
    gains = _gains(changes, train)
    options: defaultdict[Sentence, list[tuple[Cell, Change]]] = defaultdict(list)
    for change, gain in zip(changes, gains, strict=True):
        sign = "" if change.phenomenon in LOCAL else "likely" if gain > 0 else "unlikely"
        if not sign or abs(gain) > _TIE:
            options[change.sentence].append(((change.paradigm, f"{change.direction} {sign}".strip()), change))
    return balanced(sorted(options.items(), key=lambda item: item[0].draw("order")), contrasts)


def _read(heldout: Iterable[RowGroup], train: Iterable[RowGroup]) -> tuple[list[Sentence], Counter[str]]:
    """The held-out sentences that stand in no training text, of `SENTENCES`, and how often words do in training."""
    texts = (" ".join(text.split()) for group in heldout for text in _sentences(group).to_pylist())
    usable = ((Sentence.of(text).draw("order"), text) for text in texts if _is_usable(text))
    wanted = dict.fromkeys(draws.smallest(usable, SENTENCES))
    counts: Counter[str] = Counter()
    counted = 0
    for group in train:
        sentences = _sentences(group)
        known = pc.is_in(sentences, value_set=pa.array(list(wanted), pa.string()))
        for text in sentences.filter(known).to_pylist():
            wanted.pop(text, None)
        if counted < COUNTED_BYTES:
            counted += group.size
            words = pc.value_counts(_words(sentences).flatten())
            counts.update(dict(zip(words.field("values").to_pylist(), words.field("counts").to_pylist(), strict=True)))
    return [Sentence.of(text) for text in wanted], counts


def _sentences(group: RowGroup) -> pa.StringArray:
    return group.read().flatten()


def _words(sentences: pa.StringArray) -> pa.ListArray:
    """As they are counted: in small letters, marks apart."""
    spaced = pc.replace_substring_regex(pc.utf8_lower(sentences), PUNCTUATION, r" \1 ")
    return pc.utf8_split_whitespace(pc.utf8_trim_whitespace(spaced))


def _is_usable(text: str) -> bool:
    return text[:1].isupper() and text[-1:] in ".!?" and len(text) <= CHARACTERS and len(text.split()) in WORDS


def _is_plain(word: str) -> bool:
    return word.isalpha() and word.islower()


def _substitutes(counts: Mapping[str, int]) -> dict[str, list[tuple[str, str]]]:
    """Word -> words about as frequent, each with `rarer` or `more frequent`."""
    frequent = [word for word, count in counts.items() if count >= LEAST_COUNT and _is_plain(word)]
    ranked = sorted(frequent, key=lambda word: (counts[word], word))
    found = {}
    for rank, word in enumerate(ranked):
        near = ranked[max(0, rank - NEIGHBOURS) : rank + NEIGHBOURS + 1]
        low, high = counts[word] / MOST_DIFFERENT, counts[word] * MOST_DIFFERENT
        rarer = [(other, "rarer") for other in near if low <= counts[other] < counts[word]]
        found[word] = rarer + [(other, "more frequent") for other in near if counts[word] < counts[other] <= high]
    return found


def _changes(
    sentence: Sentence,
    substitutes: Mapping[str, Sequence[tuple[str, str]]],
    contrast_of: Mapping[str, tuple[str, tuple[str, str]]],
) -> Iterator[Change]:
    """All changes of single words; of those for a more frequent and for a rarer word, one a place and direction."""
    words = sentence.words
    for place in sentence.places:
        word = words[place]
        if known := contrast_of.get(word):
            phenomenon, contrast = known
            other = contrast[1] if word == contrast[0] else contrast[0]
            yield _replaced(sentence, place, other, f"{phenomenon}: {'/'.join(contrast)}", phenomenon, word)
        near = sorted(substitutes.get(word, ()), key=lambda option: sentence.draw(place, *option))
        for other, direction in {direction: (other, direction) for other, direction in near}.values():
            yield _replaced(sentence, place, other, "word in context", "word in context", direction)
        if place + 1 in sentence.places and word != words[place + 1]:
            changed = (*words[:place], words[place + 1], word, *words[place + 2 :])
            yield Change(sentence, "word order", "word order", "", changed)


def _replaced(sentence: Sentence, place: int, word: str, paradigm: str, phenomenon: str, direction: str) -> Change:
    changed = (*sentence.words[:place], word, *sentence.words[place + 1 :])
    return Change(sentence, paradigm, phenomenon, direction, changed)


def _by_word(contrasts: Contrasts) -> dict[str, tuple[str, tuple[str, str]]]:
    """Word -> phenomenon and contrast."""
    return {word: (phenomenon, pair) for phenomenon, pairs in contrasts.items() for pair in pairs for word in pair}


def _paradigms(contrasts: Contrasts) -> dict[str, list[Cell]]:
    """Every paradigm's cells."""
    signs = ("likely", "unlikely")
    found = {"word order": [("word order", sign) for sign in signs]}
    directions = {"word in context": ("rarer", "more frequent")}
    for phenomenon, pairs in contrasts.items():
        directions |= {f"{phenomenon}: {'/'.join(pair)}": pair for pair in pairs}
    for paradigm, words in directions.items():
        local = paradigm.startswith(LOCAL)
        cells = words if local else [f"{word} {sign}" for word in words for sign in signs]
        found[paradigm] = [(paradigm, cell) for cell in cells]
    return found


def _gains(changes: Sequence[Change], train: Iterable[RowGroup]) -> list[float]:
    """By how much the bigrams of the training text's words find the changed sentences more likely than the others."""
    texts = [text for change in changes for text in (change.pair.good, change.pair.bad)]
    words = _words(pa.array(texts, pa.string()))
    known = words.flatten().unique()
    boundary, size = len(known) + 1, len(known) + 2  # the id before it is that of all other words
    starts = words.offsets.to_numpy()[1:-1] + np.arange(1, len(texts))
    sentences = [np.append(part, boundary) for part in np.split(_line(words, known)[:-1], starts)]
    ngrams = Ngrams.count((_line(_words(_sentences(group)), known) for group in train), size, sentences, longest=2)
    scores = np.array([ngrams.bigram(sentence) for sentence in sentences]).reshape(-1, 2)
    return (scores[:, 1] - scores[:, 0]).tolist()


def _line(words: pa.ListArray, known: pa.StringArray) -> Ids:
    """The ids of the words of some sentences, with a boundary between them and at both ends."""
    ids = pc.fill_null(pc.index_in(words.values, value_set=known), len(known)).to_numpy()
    return np.insert(ids.astype(np.int64), words.offsets.to_numpy(), len(known) + 1)


def balanced(options: Iterable[tuple[Sentence, Sequence[tuple[Cell, Change]]]], contrasts: Contrasts) -> list[Pair]:
    """Of every paradigm the same number of pairs in each of its cells; a sentence is given to its scarcest cell."""
    options, paradigms = list(options), _paradigms(contrasts)
    supply = Counter(cell for _, choices in options for cell in {cell for cell, _ in choices})
    room = {
        cell: min(PAIRS.get(paradigm, CONTRAST_PAIRS) // len(cells), *(supply[each] for each in cells))
        for paradigm, cells in paradigms.items()
        for cell in cells
    }
    chosen: dict[Cell, list[Pair]] = {cell: [] for cell in room}
    for sentence, choices in options:
        free = [(cell, change) for cell, change in choices if len(chosen[cell]) < room[cell]]
        if free:
            cell, change = min(free, key=lambda choice: (supply[choice[0]], sentence.draw(*choice[1].words)))
            chosen[cell].append(change.pair)
    pairs = []
    for cells in paradigms.values():
        number = min(len(chosen[cell]) for cell in cells)
        if number * len(cells) >= FEWEST:
            pairs += [pair for cell in cells for pair in chosen[cell][:number]]
    return pairs
