"""Words encoded once: the ids and boundaries are the tokenizer's own, whatever the text."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.compressed import read_lines
from bertcore.shards import encoding
from bertcore.shards.encoding import WordEncoder
from bertcore.tokens.wordpiece import SPECIAL_TOKENS, load_vocabulary, make_tokenizer

LETTERS = [*"abcdeoiuAEß東İ.,'[]=", "é", "ñ", "##a", "##b", "##e", "##.", "##東", "##]", "ab", "##bc", "mask", "[", "]"]
ENTRIES = [*SPECIAL_TOKENS, *dict.fromkeys(LETTERS)]
TRICKY = [
    *("[MASK]", "[SEP]", "[mask]", "x[PAD]y", "[ MASK ]", "[UNK] a", "=", "(", "'", "a.b", "##a", "ab" * 60),
    *("\x00", "\x1c", "\x85", "\t", "\n", " ", "  ", "\xa0", "\u2028", "\u200b", "\u00ad", "\ufffd", "\U0001f600"),
    *(
        "\u0301",
        "\u0338",
        "\u302e",
        "\u0130",
        "\u03a3",
        "\u212a",
        "\u037e",
        "\u2260",
        "\u6771",
        "\u1100\u1161",
        "\uac00",
    ),
]


def tokenizer(lowercase: bool) -> Tokenizer:
    return make_tokenizer({token: index for index, token in enumerate(ENTRIES)}, lowercase)


def assert_equal(encoder: WordEncoder, own: Tokenizer, sentences: list[str]) -> None:
    tokens, offsets = encoder.encode(pa.array(sentences, pa.string()))
    found = [tokens[start:end].tolist() for start, end in zip(offsets[:-1], offsets[1:], strict=True)]
    assert found == [each.ids for each in own.encode_batch_fast(sentences, add_special_tokens=False)]


SENTENCES = st.lists(
    st.lists(st.one_of(st.text(max_size=6), st.sampled_from(TRICKY)), max_size=8).map("".join), max_size=6
)


@pytest.mark.parametrize("lowercase", [True, False])
@settings(max_examples=400)
@given(sentences=SENTENCES)
def test_ids_equal_the_tokenizers_on_any_text(lowercase: bool, sentences: list[str]) -> None:
    own = tokenizer(lowercase)
    assert_equal(WordEncoder(own), own, sentences)


@pytest.mark.parametrize("lowercase", [True, False])
def test_each_pair_of_tricky_characters(lowercase: bool) -> None:
    own = tokenizer(lowercase)
    pairs = [one + two + end for one in ("a", *TRICKY) for two in TRICKY for end in ("", "b", " b")]
    assert_equal(WordEncoder(own), own, pairs)


def test_what_is_remembered_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "WORDS_PER_CALL", 3)
    own = tokenizer(True)
    small = WordEncoder(own, remembered_words=5)
    for _ in range(2):
        for word in TRICKY:
            assert_equal(small, own, ["bad cab", f"{word} abc é", "", "bad [SEP] cab.[SEP]"])


def test_the_tokenizer_sees_each_word_once() -> None:
    encoder = WordEncoder(tokenizer(True))
    encoder.encode(pa.array(["abc bad abc", "Abc, bad"]))
    encoder._tokenizer = None  # a second look would fail
    assert len(encoder.encode(pa.array(["bad, abc"]))[0]) == len(encoder.encode(pa.array(["abc , bad"]))[0])


@pytest.fixture(params=["wikipedia", "gutenberg"])
def lines(shared_data: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    return (line.decode() for line in read_lines(shared_data / "corpus" / f"{request.param}.train.txt.zst"))


@pytest.mark.parametrize("cased", [False, True])
def test_ids_equal_the_tokenizers_on_real_text(shared_data: Path, lines: Iterator[str], cased: bool) -> None:
    path = shared_data / "vocab" / f"bert-base-{'cased' if cased else 'uncased'}-vocab.txt.zst"
    own = make_tokenizer(load_vocabulary(path), lowercase=not cased)
    assert_equal(WordEncoder(own), own, [line for line, _ in zip(lines, range(2000), strict=False)])
