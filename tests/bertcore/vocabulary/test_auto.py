"""`vocab_size: auto`: a vocabulary is the beginning of a larger one, and its size the largest that the text carries."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcore.errors import InputError
from bertcore.tokens.tokenizer import KINDS, TokenizerConfig
from bertcore.tokens.words import count_texts
from bertcore.vocabulary import auto
from tests.samples import LETTER_PAIRS, sentences


def test_a_vocabulary_is_the_beginning_of_a_larger_one() -> None:
    """Of the same text: the merges of byte-level BPE, too, are those that training to the smaller size gives."""

    @settings(max_examples=25)
    @given(st.dictionaries(st.text("abc", min_size=1, max_size=7), st.integers(1, 9), min_size=2, max_size=25))
    def check(words: dict[str, int]) -> None:
        for name, kind in KINDS.items():
            config = TokenizerConfig(kind=name, vocab_size="auto", min_frequency=1)
            whole = kind.train(config, words)
            for size in range(kind.least(config, words) + 1, whole.get_vocab_size()):
                small = kind.train(TokenizerConfig(kind=name, vocab_size=size, min_frequency=1), words)
                assert kind.first(whole, size).to_str() == small.to_str()

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_of_sentences_too(kind: str) -> None:
    row, texts = KINDS[kind], sentences(500, seed=3)
    config = TokenizerConfig(kind=kind, vocab_size="auto", min_frequency=1)
    counts = count_texts(row.cutter(config), texts, row.blank)
    whole = row.train(config, counts)
    size = (row.least(config, counts) + whole.get_vocab_size()) // 2
    small = row.train(TokenizerConfig(kind=kind, vocab_size=size, min_frequency=1), counts)
    assert row.first(whole, size).to_str() == small.to_str()


@pytest.mark.parametrize(
    ("kind", "each", "size", "end"),
    [
        ("wordpiece", 600, 640, "enough)"),
        ("wordpiece", 500, 576, "enough)"),
        ("wordpiece", 100, 512, "none smaller is made of it"),
        ("wordpiece", 1000, 704, "none larger is made of it"),
        ("byte_bpe", 600, 704, "enough)"),
        ("modernbert_bpe", 600, 704, "enough)"),
    ],
)
def test_the_size_is_that_of_the_rule(kind: str, each: int, size: int, end: str) -> None:
    least = 5 + (2 * 26 if kind == "wordpiece" else 256)

    def occurrences(entries: int) -> float:
        pieces = each * (2 * len(LETTER_PAIRS) - (entries - least))
        return pieces / (0.95 * entries * (math.log(entries) + 0.5772156649))

    carried = [entries for entries in range(512, least + len(LETTER_PAIRS) + 1, 64) if occurrences(entries) >= 100]
    assert max(carried, default=512) == size
    config = TokenizerConfig(kind=kind, vocab_size="auto")
    found = auto.trained(KINDS[kind], config, dict.fromkeys(LETTER_PAIRS, each))
    assert found.tokenizer.get_vocab_size() == size and found.too_little == (occurrences(size) < 50)
    pieces = each * (2 * len(LETTER_PAIRS) - (size - least))
    assert f"{size:,} entries: one at the 95th percentile occurs about {occurrences(size):,.0f} times" in found.why
    assert f"among the {pieces:,} pieces" in found.why and found.why.endswith(end)
    again = auto.trained(KINDS[kind], config, dict.fromkeys(LETTER_PAIRS, each))
    assert again.tokenizer.to_str() == found.tokenizer.to_str()


def test_a_size_is_not_below_the_characters_and_a_small_text_has_what_it_has() -> None:
    config = TokenizerConfig(vocab_size="auto", alphabet_size=400)
    characters = {chr(0x4E00 + index): 1 for index in range(500)}
    words = {**characters, **dict.fromkeys(LETTER_PAIRS, 2)}
    found = auto.trained(KINDS["wordpiece"], config, words)
    size = found.tokenizer.get_vocab_size()
    assert size == 832, "the first multiple of 64 above 5 special tokens and twice 400 characters"
    assert found.why.endswith("none smaller is made of it") and found.too_little
    found = auto.trained(KINDS["wordpiece"], config, {"ab": 2, "abc": 2})
    assert found.tokenizer.get_vocab_size() == 5 + 2 * 3 + 2 and found.too_little


def test_more_characters_than_it_may_have_entries_are_an_error() -> None:
    config = TokenizerConfig(vocab_size="auto", alphabet_size=30_000)
    with pytest.raises(InputError, match=r"alphabet_size: found 50,005 entries .* at most 49,984 .*; lower it"):
        auto.trained(KINDS["wordpiece"], config, {chr(0x20000 + index): 1 for index in range(25_000)})


def test_pieces_are_counted_as_often_as_their_words_occur() -> None:
    config = TokenizerConfig(vocab_size=5 + 2 * 3 + 1, min_frequency=1)
    tokenizer = KINDS["wordpiece"].train(config, {"ab": 9, "c": 1})
    assert auto.count_pieces(tokenizer, Counter({"ab": 9, "abc": 2, "ü": 4})) == 9 + 2 * 2 + 4
