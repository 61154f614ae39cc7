"""WordPiece: the same bytes in every process, and encodings equal to transformers' own tokenizer."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from bertcore.compressed import read_lines
from bertcore.errors import ArtifactError, InputError
from bertcore.tokens import wordpiece
from bertcore.tokens.kind import VocabularyConfig
from bertcore.tokens.tokenizer import load_tokenizer, vocabulary_report
from bertcore.tokens.wordpiece import (
    SPECIAL_TOKENS,
    cutter,
    load_vocabulary,
    make_tokenizer,
    read_vocabulary,
    save_tokenizer,
    train_vocabulary,
)
from bertcore.tokens.words import count_texts
from tests.samples import sentences, tokenizer

TRAIN_AND_HASH = """
import hashlib, sys
from tests.samples import sentences
from bertcore.tokens.kind import VocabularyConfig
from bertcore.tokens.wordpiece import cutter, train_vocabulary
from bertcore.tokens.words import count_texts
texts = sentences(3000, seed=2) + ["naïve café 東京 coöperation", "Ünïcode ßtraße"] * 3
config = VocabularyConfig(vocab_size=150, min_frequency=1, unused_tokens=3)
vocabulary = train_vocabulary(config, count_texts(cutter(config), texts))
print(hashlib.sha256(repr(sorted(vocabulary.items(), key=lambda item: item[1])).encode()).hexdigest())
"""


def test_training_gives_the_same_ids_in_every_process() -> None:
    hashes = {
        subprocess.run([sys.executable, "-c", TRAIN_AND_HASH], capture_output=True, text=True, check=True).stdout
        for _ in range(4)
    }
    assert len(hashes) == 1


def test_special_tokens_come_first_and_the_size_is_exact() -> None:
    vocabulary = tokenizer().get_vocab()
    assert [vocabulary[token] for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert sorted(vocabulary.values()) == list(range(120))


def test_a_vocabulary_that_the_text_does_not_support_is_refused() -> None:
    for size, remedy in ((5000, r"set vocab_size to \d+, or give more text"), (8, r"raise .*, or lower alphabet_size")):
        config = VocabularyConfig(vocab_size=size, min_frequency=2)
        found = rf"tokenizer.vocab_size: found {size}, but the corpus supports \d+ entries .*; {remedy}$"
        with pytest.raises(InputError, match=found):
            train_vocabulary(config, count_texts(cutter(config), sentences(50, seed=1)))


@pytest.mark.parametrize("lowercase", [True, False])
@settings(max_examples=200)
@given(texts=st.lists(st.text(max_size=20), max_size=5))
def test_the_alphabet_is_that_of_the_normalised_text(lowercase: bool, texts: list[str]) -> None:
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    counts = Counter("".join(normalizer.normalize_str(text) for text in texts))
    expected = sorted((each for each in counts if not each.isspace()), key=lambda each: (-counts[each], each))
    words = count_texts(cutter(VocabularyConfig(lowercase=lowercase)), texts)
    assert wordpiece._alphabet(words, 1000) == sorted(expected)
    assert wordpiece._alphabet(words, 3) == sorted(expected[:3])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(tokenizer(), directory, lowercase=True, max_length=64)
    return directory


@settings(max_examples=150)
@given(st.text(max_size=60))
def test_encodings_equal_transformers_on_any_text(saved: Path, text: str) -> None:
    from transformers import AutoTokenizer

    theirs = _cached(AutoTokenizer, saved)
    assert load_tokenizer(saved).encode(text).ids == theirs(text)["input_ids"]


_LOADED: dict[Path, object] = {}


def _cached(factory, directory: Path):
    if directory not in _LOADED:
        _LOADED[directory] = factory.from_pretrained(directory)
    return _LOADED[directory]


def test_pairs_and_limits_are_those_that_transformers_reads(saved: Path) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(saved)
    encoded, own = theirs("the cache reads", "a file"), load_tokenizer(saved).encode("the cache reads", "a file")
    assert encoded["input_ids"] == own.ids and encoded["token_type_ids"] == own.type_ids
    assert theirs.model_max_length == 64 and theirs.mask_token == "[MASK]"


@pytest.mark.parametrize("cased", [False, True])
def test_the_published_vocabularies_encode_wikipedia_as_transformers_does(
    shared_data: Path, tmp_path: Path, cased: bool
) -> None:
    from transformers import AutoTokenizer

    path = shared_data / "vocab" / f"bert-base-{'cased' if cased else 'uncased'}-vocab.txt.zst"
    vocabulary = load_vocabulary(path)
    assert len(vocabulary) == (28_996 if cased else 30_522)
    own = make_tokenizer(vocabulary, lowercase=not cased)
    save_tokenizer(own, tmp_path, lowercase=not cased)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    lines = read_lines(shared_data / "corpus" / "wikipedia.train.txt.zst")
    texts = [line.decode() for line, _ in zip(lines, range(3000), strict=False) if line]
    assert [encoding.ids for encoding in own.encode_batch(texts)] == theirs(texts)["input_ids"]


def test_a_bad_vocabulary_file_is_named() -> None:
    said = r"v.txt:8: the entry 'a' stands already in line 6; put another text, such as \[unused_6\], in line 6"
    with pytest.raises(InputError, match=said):
        read_vocabulary([*SPECIAL_TOKENS, "a", "b", "a"], "v.txt")
    with pytest.raises(
        InputError, match=r"v.txt: \[MASK\] not found, .*; give a WordPiece vocabulary, an entry a line"
    ):
        read_vocabulary([*SPECIAL_TOKENS[:-1], "a"], "v.txt")


def test_the_remedy_for_an_entry_that_stands_twice_leaves_all_ids_as_transformers_has_them(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    entries = [*SPECIAL_TOKENS, "a", "b", "a"]
    (tmp_path / "vocab.txt").write_text("\n".join(entries))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    entries[5] = "[unused_6]"
    mended = make_tokenizer(read_vocabulary(entries, "v.txt"), lowercase=True)
    assert mended.encode("a b").ids == theirs("a b")["input_ids"] == [2, 7, 6, 3]


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    entries = [*SPECIAL_TOKENS, "a"]
    (tmp_path / "vocab.txt").write_bytes("\r\n".join([*entries, "", ""]).encode())
    assert list(load_vocabulary(tmp_path / "vocab.txt")) == entries


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="tokenizer.json: not found"):
        load_tokenizer(tmp_path)


def test_the_report_counts_words() -> None:
    report = vocabulary_report(
        make_tokenizer({**{t: i for i, t in enumerate(SPECIAL_TOKENS)}, "a": 5, "##b": 6}, True), [["a ab x a"]]
    )
    assert report["heldout_words"] == 4
    assert report["heldout_unknown_word_share"] == 0.25
    assert report["heldout_unknown_character_share"] == 0.2
    assert report["heldout_whole_word_share"] == 0.5
    assert report["heldout_pieces_per_word"] == 1.25
