"""The baselines against counts made by hand."""

import math
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from bertcore.minimal_pairs import ngrams
from bertcore.minimal_pairs.ngrams import Ngrams, baseline_scorers
from bertcore.shards.store import TokenShard
from bertcore.tokens.tokenizer import Vocabulary

BOUNDARY = 3


def line(*ids: int) -> np.ndarray:
    return np.array([BOUNDARY, *ids, BOUNDARY], np.int64)


def counted() -> Ngrams:
    """Of the text `0 1 | 0 1 2` in two parts, over the ids 0 to 2 and a boundary."""
    asked = [line(0, 1), line(1, 0), line(0, 1, 2)]
    return Ngrams.count([line(0, 1), line(0, 1, 2)], 4, asked)


def test_unigrams_are_the_counts_with_a_half_added() -> None:
    total = 7 + 4 * 0.5  # 0, 1 twice, 2 once, the end of a sentence twice
    expected = [math.log(count / total) for count in (2.5, 2.5, 1.5, 2.5)]
    assert counted().unigrams == pytest.approx(expected)


def test_bigrams_are_interpolated_with_the_unigrams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ngrams.PRIORS, 2, 4.0)
    found, total = counted(), 9.0
    start = math.log((2 + 4 * 2.5 / total) / (2 + 4))
    first = math.log((2 + 4 * 2.5 / total) / (2 + 4))  # 1 after 0
    end = math.log((1 + 4 * 2.5 / total) / (2 + 4))  # the end after 1
    assert found.bigram(line(0, 1)) == pytest.approx(start + first + end)
    start = math.log((0 + 4 * 2.5 / total) / (2 + 4))
    never = math.log((0 + 4 * 2.5 / total) / (2 + 4))
    assert found.bigram(line(1, 0)) == pytest.approx(start + 2 * never)


def drawn(count: int, size: int, seed: int) -> list[np.ndarray]:
    """Lines of 0 to 9 tokens below `size`, low ones more often, between boundaries."""
    rng = np.random.default_rng(seed)
    lines = [rng.integers(0, size, rng.integers(0, 10)) ** 2 // size for _ in range(count)]
    return [np.array([size, *each, size], np.int64) for each in lines]


def plain_trigram(text: list[np.ndarray], sentence: np.ndarray, size: int) -> float:
    """Of a sentence, from counts of every n-gram of the text."""
    grams = (part[at : at + n] for part in text for n in (2, 3) for at in range(len(part) - n + 1))
    counts = Counter(tuple(gram.tolist()) for gram in grams)
    total = sum(len(part) - 1 for part in text)
    singles = Counter(part[at] for part in text for at in range(1, len(part)))

    def share(token: int, context: tuple[int, ...]) -> float:
        if not context:
            return (singles[token] + 0.5) / (total + 0.5 * size)
        prior = {1: 300.0, 2: 100.0}[len(context)]
        seen = singles[context[0]] if len(context) == 1 else counts[context]
        return (counts[*context, token] + prior * share(token, context[1:])) / (seen + prior)

    tokens = sentence.tolist()
    return sum(math.log(share(tokens[at], tuple(tokens[max(0, at - 2) : at]))) for at in range(1, len(tokens)))


@pytest.mark.parametrize("at_once", [1, 7, 2**20])
def test_trigrams_are_those_of_a_plain_computation(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences of the text and others, without a token, too; looked up in parts of any size."""
    monkeypatch.setattr(ngrams, "_AT_ONCE", at_once)
    text, asked = drawn(300, 12, seed=1), drawn(40, 12, seed=2)
    found = Ngrams.count(text, 13, asked)
    assert min(map(len, asked)) == 2
    for sentence in asked:
        assert found.trigram(sentence) == pytest.approx(plain_trigram(text, sentence, 13), rel=1e-12)
    assert Ngrams.count(text, 13, [line()]).trigram(line()) < 0  # no token: no trigram is asked for


def test_what_may_follow_two_tokens_sums_to_one() -> None:
    text = drawn(300, 12, seed=1)
    asked = [np.array([12, 0, 1, token]) for token in range(13)]
    found = Ngrams.count(text, 13, asked)
    both = [math.exp(found.trigram(sentence) - found.trigram(sentence[:3])) for sentence in asked]
    assert math.fsum(both) == pytest.approx(1.0, rel=1e-12)


def test_counting_takes_the_memory_of_what_is_asked_for() -> None:
    """The trigrams of four million tokens, nearly all different, would be 32 MB of codes alone."""
    text, held = np.random.default_rng(0).integers(0, 5000, 4_000_000), []
    for count in (1_000_000, 4_000_000):
        tracemalloc.start()
        Ngrams.count([text[:count]], 5000, [text[:100]])
        held.append(tracemalloc.get_traced_memory()[1] / 2**20)
        tracemalloc.stop()
    assert held[1] < 16 and held[1] - held[0] < 1  # MiB


def test_the_order_of_tokens_is_an_exact_tie_of_unigrams() -> None:
    rng = np.random.default_rng(0)
    text = np.concatenate([[49], rng.integers(0, 49, 5000) ** 2 // 49, [49]]).astype(np.int64)
    sentence = text[1:40]
    found = Ngrams.count([text], 50, [sentence])
    assert {found.unigram(rng.permutation(sentence)) for _ in range(20)} == {found.unigram(sentence)}


def test_counting_ends_with_the_part_that_brings_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "COUNTED_TOKENS", 3)
    short = Ngrams.count([line(0, 1), line(2, 2, 2)], 4, [line(0, 1)])
    assert short.unigrams == pytest.approx(Ngrams.count([line(0, 1)], 4, [line(0, 1)]).unigrams)


def test_the_scorers_count_the_sentences_of_shards(tokenizer: Tokenizer, tmp_path: Path) -> None:
    texts = ["the red cat .", "the cat .", "a dog"]
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    dtype = Vocabulary.of(tokenizer).dtype
    offsets = np.cumsum([0, *map(len, ids)], dtype=np.int32)
    shard = TokenShard(np.concatenate(ids).astype(dtype), offsets, np.array([0, 2, 3], np.int32))
    asked = ["the cat .", "cat the .", "the the cat ."]
    scorers = baseline_scorers([shard], tokenizer, asked)
    assert list(scorers) == ["trigram", "bigram", "unigram", "length"]
    trigram, bigram, unigram, length = (scorer(asked) for scorer in scorers.values())
    assert unigram[0] == unigram[1] and bigram[0] > bigram[1] and trigram[0] > trigram[1]
    assert length[0] == length[1] > length[2]
    assert scorers["bigram"](asked[1:2])[0] == bigram[1]
    shared = baseline_scorers([shard], tokenizer, [asked[1], *asked])["bigram"]  # pairs may have a sentence in common
    assert shared(asked).tolist() == bigram.tolist()
    # No bigram goes from one sentence to the next: `. the` was never seen, nor was `. a`.
    lines = [np.array([Vocabulary.of(tokenizer).sep, *each, Vocabulary.of(tokenizer).sep]) for each in ids]
    again = Ngrams.count(lines, tokenizer.get_vocab_size(), [lines[0]])
    whole = baseline_scorers([shard], tokenizer, texts)["bigram"](texts[:1])[0]
    assert again.bigram(lines[0]) == pytest.approx(whole, rel=1e-12)
