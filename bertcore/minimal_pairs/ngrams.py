"""What the frequencies of tokens, single, two and three in a row, say of a sentence: the baselines of minimal pairs.

Counts are of the token ids of the training text, as the encoder reads them, sentence by sentence. So all are scored by
the same pieces, and nothing depends on the order in which the text is counted.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.minimal_pairs.pairs import Scorer
from bertcore.shards.store import TokenShard
from bertcore.tokens.tokenizer import Vocabulary

COUNTED_TOKENS = 50_000_000
"""Of the training text, at most: about 10 seconds."""
PSEUDO_COUNT = 0.5
"""Added to the count of every token."""
PRIORS = {2: 300.0, 3: 100.0}
"""Tokens of an n-gram -> times that the shorter one stands beside the counts of what follows (a Dirichlet prior, MacKay
& Peto 1995). Of 30, 100, 300, 1,000 and 3,000 for bigrams, of 3, 10, 30, 100 and 300 for trigrams, the one that finds
held-out sentences of the embedded corpus the most likely."""
_AT_ONCE = 2**18
"""N-grams that are looked up at once, in 8 MB."""

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Ngrams:
    """Log-probabilities of tokens, and of those n-grams that were asked for."""

    unigrams: NDArray[np.float64]
    """(V,) log-probabilities."""
    codes: dict[int, Ids]
    """Tokens of an n-gram, from 2 -> (N,) its ids as the digits of a number to the base V, ascending."""
    further: dict[int, NDArray[np.float64]]
    """As `codes` -> (N,) log-probabilities of the last token after the others."""

    @classmethod
    def count(cls, text: Iterable[Ids], size: int, sentences: Sequence[Ids], longest: int = 3) -> "Ngrams":
        """From parts of a text of ids below `size`, until `COUNTED_TOKENS` are counted.

        A boundary, an id of its own, stands before and behind every sentence. Of the n-grams of 2 to `longest` tokens
        only those in `sentences` are counted. p(token) = (count + 0.5) / (all + V / 2); p(token | context) = (count of
        both + prior p(token | context without its first)) / (count of context + prior), with the prior of `PRIORS`.
        """
        assert size**longest < 2**63, "more codes than 64 bits hold"
        lengths = range(2, longest + 1)
        codes = {n: np.unique(np.concatenate([_codes(sentence, size, n) for sentence in sentences])) for n in lengths}
        counts = {1: np.zeros(size, np.int64), **{n: np.zeros(len(codes[n]), np.int64) for n in lengths}}
        for part in text:
            counts[1] += np.bincount(part[1:], minlength=size)
            for n in lengths:
                counts[n] += _counted(part, size, n, codes[n])
            if counts[1].sum() >= COUNTED_TOKENS:
                break
        shares = {1: (counts[1] + PSEUDO_COUNT) / (counts[1].sum() + PSEUDO_COUNT * size)}
        places = {1: np.arange(size), **codes}
        for n in lengths:
            context = np.searchsorted(places[n - 1], codes[n] // size)
            shorter = np.searchsorted(places[n - 1], codes[n] % size ** (n - 1))
            prior = PRIORS[n]
            shares[n] = (counts[n] + prior * shares[n - 1][shorter]) / (counts[n - 1][context] + prior)
        return cls(np.log(shares[1]), codes, {n: np.log(shares[n]) for n in lengths})

    def unigram(self, sentence: Ids) -> float:
        """The log-probability of a sentence's tokens; the same for every order of them, to the last bit."""
        return math.fsum(self.unigrams[sentence].tolist())

    def bigram(self, sentence: Ids) -> float:
        """The log-probability of a sentence, each token after the one before it; the first is given."""
        return math.fsum(self._after(sentence, 2))

    def trigram(self, sentence: Ids) -> float:
        """As `bigram`, each token after the two before it; the second one after the first."""
        return math.fsum(self._after(sentence[:2], 2) + self._after(sentence, 3))

    def _after(self, sentence: Ids, length: int) -> list[float]:
        places = np.searchsorted(self.codes[length], _codes(sentence, len(self.unigrams), length))
        found: list[float] = self.further[length][places].tolist()
        return found


def _codes(line: Ids, size: int, length: int) -> Ids:
    """Of all n-grams of that length."""
    codes = line
    for place in range(1, length):
        codes = codes[:-1] * size + line[place:]
    return codes


def _counted(line: Ids, size: int, length: int, asked: Ids) -> Ids:
    """How often each of the n-grams stands in a line whose ascending codes are `asked`. What is asked for is looked up,
    a part of the line at a time: all trigrams of a shard, sorted, would take half a gigabyte."""
    counts = np.zeros(len(asked) + 1, np.int64)
    ended = np.append(asked, -1)  # which is no code: of those beyond the last
    for start in range(0, len(line), _AT_ONCE):
        codes = _codes(line[start : start + _AT_ONCE + length - 1], size, length)
        places = np.searchsorted(asked, codes)
        counts += np.bincount(places[ended[places] == codes], minlength=len(counts))
    return counts[:-1]


def baseline_scorers(shards: Iterable[TokenShard], tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, Scorer]:
    """Scorers, for `texts` alone, by their name: `trigram`, `bigram`, `unigram`, and `length`, which prefers
    fewer tokens."""
    vocabulary = Vocabulary.of(tokenizer)
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}  # pairs may share a sentence
    encodings = tokenizer.encode_batch_fast(list(places), add_special_tokens=False)
    sentences = [np.array([vocabulary.sep, *encoding.ids, vocabulary.sep]) for encoding in encodings]
    ngrams = Ngrams.count(_lines(shards, vocabulary.sep), vocabulary.size, sentences)
    scores = {
        "trigram": [ngrams.trigram(sentence) for sentence in sentences],
        "bigram": [ngrams.bigram(sentence) for sentence in sentences],
        "unigram": [ngrams.unigram(sentence) for sentence in sentences],
        "length": [-len(encoding) for encoding in encodings],
    }

    def scorer_of(values: NDArray[np.float64]) -> Scorer:
        return lambda asked: values[[places[text] for text in asked]]

    return {name: scorer_of(np.array(values, np.float64)) for name, values in scores.items()}


def _lines(shards: Iterable[TokenShard], sep: int) -> Iterator[Ids]:
    """The ids of each shard with [SEP] between its sentences, and at both ends."""
    for shard in shards:
        yield np.insert(shard.tokens.astype(np.int64), shard.sentence_offsets, sep)
