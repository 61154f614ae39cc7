"""Counts of words: those that the library's own tokenizers find, in bounded memory, for any number of workers."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from bertcore.corpus.documents import corpus_shards
from bertcore.tokens import byte_bpe, modernbert_bpe, wordpiece, words
from bertcore.tokens.kind import VocabularyConfig
from bertcore.tokens.words import WordCounts, count_texts
from bertcore.vocabulary import corpus_words
from bertcore.vocabulary.corpus_words import count_corpus
from tests.samples import documents, sentences, write_corpus

CUT = {
    "uncased": (wordpiece.cutter(VocabularyConfig(lowercase=True)), ""),
    "cased": (wordpiece.cutter(VocabularyConfig(lowercase=False)), ""),
    "bytes": (byte_bpe.cutter(), " "),
    "modernbert": (modernbert_bpe.cutter(), " "),
    "BERT's with blanks": (wordpiece.cutter(VocabularyConfig()), " "),
    "lower-cased bytes": (words.cutter(normalizers.Lowercase(), pre_tokenizers.ByteLevel(add_prefix_space=False)), " "),
    "bytes with a first blank": (words.cutter(None, pre_tokenizers.ByteLevel(add_prefix_space=True)), " "),
}
ALPHABETS = ("aB'.\u0301 \t\u00e9\u4e1c", "".join(map(chr, range(128))))


@pytest.mark.parametrize("name", CUT)
@settings(max_examples=200)
@example(texts=["a\t ", "a \u00a0", "\u3000 b"])
@example(
    texts=[
        "".join(map(chr, range(128))),
        " ".join(map(chr, range(128))),
        "a^b Don't!! a''s 'S 'sa 'll. 1'd2 x ",
        "  're",
    ]
)
@given(texts=st.lists(st.one_of(st.text(max_size=20), *(st.text(some, max_size=20) for some in ALPHABETS)), max_size=5))
def test_words_are_those_of_whole_texts(name: str, texts: list[str]) -> None:
    cut, blank = CUT[name]
    expected: Counter[str] = Counter()
    for text in texts:
        shown = cut.normalizer.normalize_str(text) if cut.normalizer else text
        expected.update(word for word, _ in cut.pre_tokenizer.pre_tokenize_str(shown))
    assert count_texts(cut, texts, blank) == expected


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdefghijklmn"), st.integers(1, 9), max_size=14), max_size=12),
    st.integers(1, 8),
)
def test_what_is_forgotten_is_counted_and_bounded(blocks: list[dict[str, int]], most: int) -> None:
    found, true = WordCounts(most=most), Counter[str]()
    for block in blocks:
        found.add(block)
        true.update(block)
        assert len(found.counts) <= most
    assert found.counts.total() + found.forgotten == true.total() == found.report()["train_words"]
    for word, count in true.items():
        assert count - found.short <= found.counts[word] <= count
    if len(true) <= most:
        assert found.counts == true and not found.forgotten


def test_the_rarest_words_are_forgotten_until_half_are_left() -> None:
    found = WordCounts(most=4)
    found.add({"a": 5, "b": 2, "c": 2, "d": 1})
    assert len(found.counts) == 4
    found.add({"a": 1, "e": 3})
    assert (found.counts, found.forgotten, found.short) == ({"a": 6, "e": 3}, 5, 2)


def test_of_words_that_are_as_rare_the_older_ones_stay() -> None:
    """Without blanks between words they are clauses, of which most stand in a text once."""
    found = WordCounts(most=4)
    found.add(dict.fromkeys("abcde", 1))
    assert (found.counts, found.forgotten, found.short) == ({"a": 1, "b": 1}, 3, 1)


def test_long_words_count_for_their_characters() -> None:
    found = WordCounts(most=100, most_characters=30)
    found.add({"a" * 10: 3, "b" * 10: 2, "c" * 10: 1})
    assert (len(found.counts), found.characters) == (3, 30)
    found.add({"d" * 4: 5, "c" * 10: 3})
    assert (found.counts, found.characters) == ({"d" * 4: 5, "c" * 10: 4}, 14)
    assert (found.forgotten, found.short) == (5, 3)


@pytest.mark.parametrize("name", ["uncased", "bytes"])
def test_the_counts_do_not_depend_on_the_number_of_workers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [[*each, f"word{index} stands here alone"] for index, each in enumerate(documents(60))]
    write_corpus(tmp_path, "train", texts, shard_characters=20_000, group_characters=2_000)
    cut, blank = CUT[name]
    expected: Counter[str] = Counter()
    for first, *others in texts:
        expected.update(count_texts(cut, [first, *(blank + text for text in others)], blank))
    monkeypatch.setattr(corpus_words, "WordCounts", lambda: WordCounts(most=45))
    shards = corpus_shards(tmp_path, "train")
    alone, two = (count_corpus(shards, cut, blank, count) for count in (1, 2))
    assert alone == two and 0 < alone.forgotten == expected.total() - alone.counts.total()
    assert "the text has more than 45 different words" in caplog.text


def trained(texts: list[str], counts: Counter[str] | None) -> dict[str, int]:
    trainer = trainers.BpeTrainer(vocab_size=300, min_frequency=1, show_progress=False, initial_alphabet=LETTERS)
    tokenizer = Tokenizer(models.BPE())
    if counts is None:
        cut = CUT["uncased"][0]
        tokenizer.normalizer, tokenizer.pre_tokenizer = cut.normalizer, cut.pre_tokenizer
        tokenizer.train_from_iterator([texts], trainer)
    else:
        words.train(tokenizer, trainer, counts)
    return tokenizer.get_vocab()


LETTERS = sorted(set("".join(sentences(3000, seed=2)).lower()))


def test_training_on_counts_is_training_on_the_texts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    texts = sentences(3000, seed=2)
    counts = count_texts(CUT["uncased"][0], texts)
    assert trained(texts, counts) == trained(texts, None)
    monkeypatch.setattr(words, "MOST_OCCURRENCES", counts.total() // 3)
    rare = Counter(counts | {"seldom": 3})
    assert "sel" not in trained(texts, rare) and "the counts are divided by 4" in caplog.text


def test_a_minimum_holds_for_divided_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counter({"aa": 1000, "bb": 12, "cc": 6})
    monkeypatch.setattr(words, "MOST_OCCURRENCES", counts.total() // 3)
    trainer = trainers.BpeTrainer(vocab_size=100, min_frequency=8, initial_alphabet=["a", "b", "c"])
    tokenizer = Tokenizer(models.BPE())
    words.train(tokenizer, trainer, counts)
    assert set(tokenizer.get_vocab()) == {"a", "b", "c", "aa", "bb"}
