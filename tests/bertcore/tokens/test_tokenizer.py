"""The interface to a tokenizer, against the tokenizer's own output and against another family's published layout."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from bertcore.errors import ArtifactError
from bertcore.tokens.tokenizer import Vocabulary, check_entries, entries_of, tokenizer_kind
from tests.samples import tokenizer, vocabulary


def test_sequences_are_those_of_the_tokenizer_itself() -> None:
    own, texts = vocabulary(), ("the parser reads the file.", "a reader")
    first, second = (tokenizer().encode(text, add_special_tokens=False).ids for text in texts)
    for arguments, parts in ((texts[:1], (first,)), (texts, (first, second))):
        expected = tokenizer().encode(*arguments)
        ids, types = own.sequence(*parts)
        assert (ids.tolist(), types.tolist()) == (expected.ids, expected.type_ids)
    assert own.sequence(first, second)[0][own.start_of_second(len(first)) :].tolist() == [*second, own.sep]
    assert own.special_per_text == len(own.sequence(first)[0]) - len(first)
    assert own.special_per_pair == len(own.sequence(first, second)[0]) - len(first) - len(second)


def test_two_separators_and_no_segment_ids_are_a_layout_too() -> None:
    """As RoBERTa has it: <s> A </s></s> B </s>, all of type 0."""
    other = replace(vocabulary(), separators=2, segment_ids=False)
    ids, types = other.sequence([7, 8], [9])
    assert ids.tolist() == [other.cls, 7, 8, other.sep, other.sep, 9, other.sep] and not types.any()
    assert ids[other.start_of_second(2)] == 9 and other.special_per_pair == 4


def test_words_begin_where_the_tokenizer_says() -> None:
    encoding = tokenizer().encode("every unfinished scheduler compresses buffers", add_special_tokens=False)
    ids, word_ids = np.array(encoding.ids), np.array(encoding.word_ids)
    assert (~vocabulary().continues[ids]).tolist() == (np.diff(word_ids, prepend=-1) > 0).tolist()


def test_an_unknown_kind_and_a_missing_special_token_are_named() -> None:
    with pytest.raises(
        ArtifactError, match="found a tokenizer of the kind Unigram, expected one of: wordpiece, byte_bpe"
    ):
        tokenizer_kind(Tokenizer(models.Unigram()))
    with pytest.raises(ArtifactError, match=r"\[MASK\] not found"):
        Vocabulary.of(Tokenizer(models.WordPiece({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}, unk_token="[UNK]")))


def test_an_id_without_an_entry_is_compared_with_nothing(tmp_path: Path) -> None:
    """As where an entry stands twice in vocab.txt, whose last line counts."""
    (tmp_path / "vocab.txt").write_text("a\nb\nc\nb\n")
    (tmp_path / "vocab.json").write_text('{"a": 0, "c": 2, "b": 3}')
    assert entries_of(tmp_path / "vocab.txt") == entries_of(tmp_path / "vocab.json") == ["a", "", "c", "b"]
    check_entries(["a", "", "c", "b"], ["a", "x", "c", "b"], "theirs", "ours", "give it")
    with pytest.raises(ArtifactError, match="theirs: found 'c' as entry 2, expected 'd' as in ours"):
        check_entries(["a", "", "c", "b"], ["a", "x", "d", "b"], "theirs", "ours", "give it")
    for wrong in (-1, 10**12):
        (tmp_path / "vocab.json").write_text(json.dumps({"a": wrong}))
        with pytest.raises(ArtifactError, match=rf"vocab.json: found no vocabulary \(the id {wrong}\)"):
            entries_of(tmp_path / "vocab.json")
