"""New entries of a vocabulary: the words that save the most pieces, behind the entries that were there."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.errors import InputError
from bertcore.tokens.kind import VocabularyConfig
from bertcore.tokens.tokenizer import TokenizerConfig, vocabulary_report
from bertcore.tokens.wordpiece import SPECIAL_TOKENS, cutter, make_tokenizer
from bertcore.tokens.words import count_texts
from bertcore.vocabulary.extension import extended

ENTRIES = [*SPECIAL_TOKENS, *"abcdegn", *(f"##{letter}" for letter in "abcdegn"), "gene", "a1"]


def small() -> Tokenizer:
    return make_tokenizer({entry: index for index, entry in enumerate(ENTRIES)}, lowercase=True)


TEXTS = [
    ["Bad bad bad gene, CAB cab", "cab cab agec agec agec"],  # bad saves 3 x 2, cab 4 x 2, agec 3 x 3
    ["decade decade", "ζ ζ ζ ζ ζ ζ ζ", "1111 1111 1111 1111 1111 , , , ,"],  # decade 2 x 5, ζ 7 x 1 (unknown)
]


def counted(texts: list[list[str]]) -> Counter[str]:
    return count_texts(cutter(VocabularyConfig(lowercase=True)), [text for batch in texts for text in batch])


def test_the_words_that_save_most_are_added_behind_the_others() -> None:
    found = extended(small(), counted(TEXTS), 4, min_frequency=2)
    entries = sorted(found.get_vocab(), key=found.get_vocab().__getitem__)
    assert entries == [*ENTRIES, "decade", "agec", "cab", "ζ"], "no numbers, no marks, and none that is one piece"
    assert found.encode("Decade gene ζ", add_special_tokens=False).tokens == ["decade", "gene", "ζ"]
    assert found.encode("a b", "c").tokens == small().encode("a b", "c").tokens


def test_rare_words_are_left_out_and_too_few_are_an_error() -> None:
    with pytest.raises(InputError, match="found 5, expected at most the 4 words .* that occur 3 times"):
        extended(small(), counted(TEXTS), 5, min_frequency=3)


@given(st.lists(st.lists(st.text("abcdegn ", min_size=1, max_size=40), min_size=1, max_size=4), max_size=4))
def test_a_text_never_has_more_pieces_than_before(texts: list[list[str]]) -> None:
    before = small()
    try:
        after = extended(before, counted(texts), 1, min_frequency=1)
    except InputError:
        return
    pieces = [vocabulary_report(each, texts)["heldout_pieces_per_word"] for each in (after, before)]
    assert pieces[0] < pieces[1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"new_entries": 5}, "new_entries: found 5 without vocab_file"),
        ({"new_entries": -1, "vocab_file": "v"}, "found -1, expected 0 or more"),
        (
            {"new_entries": 5, "kind": "byte_bpe", "vocab_file": "v", "merges_file": "m"},
            "expected 0 with kind byte_bpe",
        ),
    ],
)
def test_what_cannot_be_extended_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TokenizerConfig(**values)  # type: ignore[arg-type]
