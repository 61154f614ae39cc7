"""What the frequencies of single tokens and of neighbours say of a sentence: the baselines of minimal pairs.

Counts are of the token ids of the training text, as the encoder reads them, sentence by sentence. So both are scored by
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
PRIOR = 300.0
"""Times that the unigrams stand beside the counts of what follows a token (a Dirichlet prior, MacKay & Peto 1995). Of
30, 100, 300, 1,000 and 3,000 the one that finds held-out sentences of the embedded corpus the most likely."""

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Ngrams:
    """Log-probabilities of tokens, and of those pairs of neighbours that were asked for."""

    unigrams: NDArray[np.float64]
    """(V,) log-probabilities."""
    codes: Ids
    """(N,) previous token times V plus next token, ascending."""
    bigrams: NDArray[np.float64]
    """(N,) log-probabilities of the next token after the previous one."""

    @classmethod
    def count(cls, text: Iterable[Ids], size: int, sentences: Iterable[Ids]) -> "Ngrams":
        """From parts of a text of ids below `size`, until `COUNTED_TOKENS` are counted.

        A boundary, an id of its own, stands before and behind every sentence. Of the neighbours only those in
        `sentences` are counted. p(token) = (count + 0.5) / (all + V / 2); p(next | previous) = (count of both + PRIOR
        p(next)) / (count of previous + PRIOR).
        """
        codes = np.unique(np.concatenate([_codes(sentence, size) for sentence in sentences]))
        singles, pairs = np.zeros(size, np.int64), np.zeros(len(codes), np.int64)
        for part in text:
            singles += np.bincount(part[1:], minlength=size)
            found, counts = np.unique(_codes(part, size), return_counts=True)
            _, here, there = np.intersect1d(codes, found, assume_unique=True, return_indices=True)
            pairs[here] += counts[there]
            if singles.sum() >= COUNTED_TOKENS:
                break
        unigrams = (singles + PSEUDO_COUNT) / (singles.sum() + PSEUDO_COUNT * size)
        previous, following = np.divmod(codes, size)
        bigrams = (pairs + PRIOR * unigrams[following]) / (singles[previous] + PRIOR)
        return cls(unigrams=np.log(unigrams), codes=codes, bigrams=np.log(bigrams))

    def unigram(self, sentence: Ids) -> float:
        """The log-probability of a sentence's tokens; the same for every order of them, to the last bit."""
        return math.fsum(self.unigrams[sentence].tolist())

    def bigram(self, sentence: Ids) -> float:
        """The log-probability of a sentence, each token after the one before it; the first is given."""
        places = np.searchsorted(self.codes, _codes(sentence, len(self.unigrams)))
        return math.fsum(self.bigrams[places].tolist())


def _codes(line: Ids, size: int) -> Ids:
    return line[:-1] * size + line[1:]


def baseline_scorers(shards: Iterable[TokenShard], tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, Scorer]:
    """Scorers, for `texts` alone, by their name: `bigram`, `unigram`, and `length`, which prefers fewer tokens."""
    vocabulary = Vocabulary.of(tokenizer)
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}  # pairs may share a sentence
    encodings = tokenizer.encode_batch_fast(list(places), add_special_tokens=False)
    sentences = [np.array([vocabulary.sep, *encoding.ids, vocabulary.sep]) for encoding in encodings]
    ngrams = Ngrams.count(_lines(shards, vocabulary.sep), vocabulary.size, sentences)
    scores = {
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
