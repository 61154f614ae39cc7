"""Byte-level BPE: the same bytes in every process, and encodings equal to transformers' on any text."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers

from bertcore.errors import ArtifactError, ConfigError, InputError
from bertcore.shards.build import encode_documents
from bertcore.shards.encoding import ByteEncoder, encoder_of
from bertcore.tokens.byte_bpe import (
    FIRST_ENTRIES,
    cutter,
    make_tokenizer,
    read_tokenizer,
    save_tokenizer,
    train_tokenizer,
)
from bertcore.tokens.kind import VocabularyConfig, running
from bertcore.tokens.tokenizer import (
    TokenizerConfig,
    Vocabulary,
    check_vocabulary_file,
    entries_in,
    load_tokenizer,
    tokenizer_kind,
    vocabulary_report,
)
from bertcore.tokens.wordpiece import save_tokenizer as save_wordpiece
from bertcore.tokens.words import count_texts
from tests.samples import byte_tokenizer, documents, sentences, tokenizer

TRAIN_AND_HASH = """
import hashlib, random, sys
from collections import Counter
from tests.samples import sentences
from bertcore.tokens.byte_bpe import cutter, train_tokenizer
from bertcore.tokens.kind import VocabularyConfig, running
from bertcore.tokens.words import count_texts
order, size = int(sys.argv[1]), int(sys.argv[2])
texts = sentences(3000, seed=2) + [" naïve café 東京 coöperation", "Ünïcode ßtraße", "हिन्दी में", "\\U0001f600"] * 3
random.Random(order).shuffle(texts)
counts = Counter()
for start in range(0, len(texts), size):
    counts.update(count_texts(cutter(), texts[start : start + size], " "))
trained = train_tokenizer(VocabularyConfig(vocab_size=430, min_frequency=1), counts)
print(hashlib.sha256(trained.to_str().encode()).hexdigest())
"""

TEXTS = [
    *(
        "Hello world",
        " Hello world",
        "a  b",
        "a   b ",
        "x\t y",
        "x \t\ty",
        "\n",
        "don't we'll I'M",
        "1234 5th",
        "a<mask>b",
    ),
    *(
        "a  <mask> b",
        "a\t <mask>",
        "</s>",
        "<pad> <s>x</s>",
        "हिन्दी में लिखा",
        "東京で、 会う",
        "e\u0301 cafe\u0301s",
        "👩‍👩‍👧 😀x",
    ),
    *("", " ", "   ", "\u00a0x\u3000y", "…—“quoted”", "ab\u200bcd", "\x00", "\ufffd", "#version a b", "Ġ Ċ"),
]


def hashed(order: int, size: int, threads: int) -> str:
    environment = os.environ | {"RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": str(threads > 1).lower()}
    command = [sys.executable, "-c", TRAIN_AND_HASH, str(order), str(size)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_training_gives_the_same_bytes_in_every_process_thread_count_and_order() -> None:
    runs = [(0, 5000, 1), (0, 5000, 2), (1, 1, 2), (2, 97, 1), (3, 1000, 2)]
    assert len({hashed(*each) for each in runs}) == 1


def test_special_tokens_and_bytes_come_first_and_the_size_is_exact() -> None:
    vocabulary = byte_tokenizer().get_vocab(with_added_tokens=True)
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    assert ordered[:5] == list(FIRST_ENTRIES) and [vocabulary[token] for token in ordered] == list(range(400))
    assert ordered[5:261] == sorted(pre_tokenizers.ByteLevel.alphabet())


def test_a_vocabulary_that_the_text_does_not_support_is_refused() -> None:
    with pytest.raises(InputError, match=r"tokenizer.vocab_size: found 5000, but the corpus supports \d+ entries"):
        train_tokenizer(VocabularyConfig(vocab_size=5000), count_texts(cutter(), sentences(50, seed=1), " "))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(byte_tokenizer(), directory, max_length=64)
    return directory


@pytest.fixture(scope="module")
def theirs(saved: Path) -> Any:
    """transformers' own tokenizer, made from vocabulary and merges alone, with the published ones' mask."""
    mask = transformers.AddedToken("<mask>", lstrip=True, normalized=False, special=True)
    return transformers.RobertaTokenizerFast(str(saved / "vocab.json"), str(saved / "merges.txt"), mask_token=mask)


def assert_equal_encodings(own: Tokenizer, theirs: Any, text: str) -> None:
    here, there = own.encode(text), theirs(text, return_offsets_mapping=True)
    assert here.ids == there["input_ids"] and here.offsets == [tuple(each) for each in there["offset_mapping"]]


@pytest.mark.parametrize("text", TEXTS)
def test_ids_and_offsets_equal_transformers(theirs: Any, text: str) -> None:
    assert_equal_encodings(byte_tokenizer(), theirs, text)


@settings(max_examples=150)
@given(text=st.text(max_size=60))
def test_ids_and_offsets_equal_transformers_on_any_text(theirs: Any, text: str) -> None:
    assert_equal_encodings(byte_tokenizer(), theirs, text)


@settings(max_examples=150)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_no_text_is_lost(text: str) -> None:
    if not any(token in text for token in FIRST_ENTRIES):
        ids = byte_tokenizer().encode(text, add_special_tokens=False).ids
        assert byte_tokenizer().decode(ids) == text and Vocabulary.of(byte_tokenizer()).unk not in ids


def test_auto_tokenizer_finds_what_was_saved(saved: Path) -> None:
    auto = transformers.AutoTokenizer.from_pretrained(saved)
    assert type(auto) is transformers.RobertaTokenizerFast and auto.model_max_length == 64
    assert (auto.mask_token, auto.bos_token, auto.eos_token, auto.pad_token_id) == ("<mask>", "<s>", "</s>", 1)
    encoded = auto("the cache reads", "a file")
    own = load_tokenizer(saved).encode("the cache reads", "a file")
    assert encoded["input_ids"] == own.ids and not any(own.type_ids)
    ids = Vocabulary.of(byte_tokenizer()).sequence(
        *(auto(t, add_special_tokens=False)["input_ids"] for t in ("the cache reads", "a file"))
    )[0]
    assert own.ids == ids.tolist()
    for text in TEXTS:
        assert_equal_encodings(byte_tokenizer(), auto, text)


def test_saved_files_give_the_same_bytes_again(saved: Path, tmp_path: Path) -> None:
    packed = tmp_path / "vocab.json.gz"
    packed.write_bytes(gzip.compress((saved / "vocab.json").read_bytes()))
    for files in (
        [saved / "vocab.json", saved / "merges.txt"],
        [packed, saved / "merges.txt"],
        [saved / "tokenizer.json"],
    ):
        assert read_tokenizer(files, None, "it").to_str() == byte_tokenizer().to_str()
    assert entries_in(saved) == [
        json.loads(json.dumps(token))
        for token in sorted(byte_tokenizer().get_vocab(), key=byte_tokenizer().get_vocab().__getitem__)
    ]


def test_a_vocabulary_may_have_any_word(tmp_path: Path) -> None:
    """Also those that are keys of a tokenizer.json."""
    texts = ["model vocab added_tokens model vocab added_tokens"] * 3
    own = train_tokenizer(VocabularyConfig(vocab_size=280, min_frequency=1), count_texts(cutter(), texts, " "))
    assert {"model", "Ġmodel"} <= own.get_vocab().keys()
    save_tokenizer(own, tmp_path)
    assert read_tokenizer([tmp_path / "vocab.json", tmp_path / "merges.txt"], None, "it").to_str() == own.to_str()
    assert entries_in(tmp_path)[:5] == list(FIRST_ENTRIES)


def test_a_tokenizer_of_older_transformers_is_read(saved: Path, tmp_path: Path) -> None:
    """Whose merges are texts with a blank between the pieces."""
    values = json.loads((saved / "tokenizer.json").read_text())
    values["model"]["merges"] = [" ".join(each) for each in values["model"]["merges"]]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    assert read_tokenizer([path], None, "it").to_str() == byte_tokenizer().to_str()


def rewritten(saved: Path, path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    values = json.loads((saved / path.name).read_text())
    change(values)
    path.write_text(json.dumps(values))
    return path


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("vocab.json", lambda v: v.update({"</s>": 9000}), "found ids that are not 0 to 399, each once"),
        ("vocab.json", lambda v: v.update({"<msk>": v.pop("<mask>")}), "v: <mask> not found, expected RoBERTa's"),
        ("vocab.json", lambda v: v.update({"xyzzy": v.pop("Ġ")}), r"v: 1 of the 256 bytes not found \('Ġ', …\)"),
        ("vocab.json", lambda v: v.update({"xyzzy": v.pop("Ġt")}), "expected both and 'Ġt' among the entries"),
        ("tokenizer.json", lambda v: v["pre_tokenizer"].update(add_prefix_space=True), "'add_prefix_space': True"),
        ("tokenizer.json", lambda v: v.update(normalizer={"type": "NFC"}), "the normalizer {'type': 'NFC'}"),
        ("tokenizer.json", lambda v: v["model"].update(type="WordPiece"), "found a tokenizer of the model 'WordPiece'"),
    ],
)
def test_files_of_something_else_are_named(
    saved: Path, tmp_path: Path, name: str, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    files = [rewritten(saved, tmp_path / name, change)]
    files += [saved / "merges.txt"] if name == "vocab.json" else []
    with pytest.raises(InputError, match=message):
        read_tokenizer(files, None, "v")


def test_files_that_cannot_be_read_are_named(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="v: found the entries of a byte-level BPE without its merges"):
        read_tokenizer([saved / "vocab.json"], None, "v")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h e\n")
    with pytest.raises(InputError, match=r"merges.txt:2: found 't h e', expected two pieces"):
        read_tokenizer([saved / "vocab.json", tmp_path / "merges.txt"], None, "v")
    (tmp_path / "vocab.json").write_text("[]")
    with pytest.raises(InputError, match="v: found no JSON object, expected the vocab.json or tokenizer.json"):
        read_tokenizer([tmp_path / "vocab.json"], None, "v")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lowercase": True}, "lowercase: found true, expected false or null"),
        ({"vocab_size": 10**12}, "vocab_size: found 1000000000000, expected at most 10,000,000; lower it"),
        ({"vocab_size": "auto", "unused_tokens": 50_000, "kind": "wordpiece"}, "vocab_size: found auto, expected more"),
        ({"alphabet_size": 300}, "alphabet_size: found 300 with kind byte_bpe, whose alphabet is the bytes; remove it"),
        ({"unused_tokens": 3}, "unused_tokens: found 3, expected 0 with kind byte_bpe"),
        ({"vocab_size": 261}, "vocab_size: found 261, expected more than the 261 special tokens and bytes"),
        ({"vocab_file": "r/vocab.json"}, "merges_file: found nothing .*set it to r/merges.txt"),
        ({"vocab_file": "r/tokenizer.json", "merges_file": "r/m.txt"}, "which has its own merges; remove it"),
        ({"merges_file": "r/m.txt"}, "merges_file: found 'r/m.txt' without vocab_file"),
        ({"kind": "wordpiece", "vocab_file": "v.txt", "merges_file": "m.txt"}, "expected none with kind wordpiece"),
        ({"kind": "byte-bpe"}, "kind: found 'byte-bpe'.*'byte_bpe'"),
    ],
)
def test_what_the_section_cannot_say_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TokenizerConfig(**{"kind": "byte_bpe", **values})


def test_a_published_vocabulary_of_another_kind_is_refused(saved: Path, tmp_path: Path) -> None:
    save_wordpiece(tokenizer(), tmp_path, lowercase=True)
    byte, word = str(saved / "vocab.json"), str(tmp_path / "vocab.txt")
    with pytest.raises(
        ConfigError, match="kind 'byte_bpe' in .*expected 'wordpiece'.*set tokenizer.kind to 'byte_bpe'"
    ):
        check_vocabulary_file(TokenizerConfig(vocab_file=byte))
    with pytest.raises(ConfigError, match="set tokenizer.kind to 'wordpiece'"):
        check_vocabulary_file(TokenizerConfig(kind="byte_bpe", vocab_file=word, merges_file=str(saved / "merges.txt")))
    whole = str(tmp_path / "tokenizer.json")
    for kind, listed in (("wordpiece", "vocab.txt"), ("byte_bpe", "vocab.json and merges.txt")):
        with pytest.raises(ConfigError, match=f"found a whole tokenizer in .*tokenizer.json, expected its {listed}"):
            check_vocabulary_file(TokenizerConfig(kind=kind, vocab_file=whole))
    check_vocabulary_file(TokenizerConfig(vocab_file=word))
    check_vocabulary_file(TokenizerConfig(kind="byte_bpe", vocab_file=byte, merges_file=str(saved / "merges.txt")))
    (tmp_path / "vocab.json").write_text("{")
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(ArtifactError, match="vocab.json: found no vocabulary"):
        entries_in(tmp_path)


def assert_words_give_the_same(encoder: ByteEncoder, texts: list[str]) -> None:
    tokens, offsets = encoder.encode(pa.array(texts, pa.string()))
    found = [tokens[start:end].tolist() for start, end in pairwise(offsets)]
    assert found == [each.ids for each in byte_tokenizer().encode_batch_fast(texts, add_special_tokens=False)]


@settings(max_examples=400)
@given(
    st.lists(
        st.lists(st.one_of(st.text(max_size=6), st.sampled_from([*TEXTS, " ", "  "])), max_size=8).map("".join),
        max_size=6,
    )
)
def test_words_encoded_once_are_those_of_the_tokenizer(texts: list[str]) -> None:
    assert_words_give_the_same(ByteEncoder(byte_tokenizer()), texts)


def test_each_pair_of_tricky_texts() -> None:
    pairs = [one + between + two for one in TEXTS for two in TEXTS for between in ("", " ", "  ", "\t")]
    assert_words_give_the_same(ByteEncoder(byte_tokenizer()), pairs)


def test_a_document_has_the_tokens_of_its_running_text() -> None:
    """Sentences are encoded each for itself, but a blank stands between two of them."""
    texts = [*documents(8), ["दूसरा वाक्य।", "", "😀 third", "東京で会う。"]]
    shard = encode_documents([pa.array(texts[:4]), pa.array(texts)[4:]], encoder_of(byte_tokenizer()))
    in_one = [byte_tokenizer().encode(" ".join(filter(None, each)), add_special_tokens=False).ids for each in texts]
    places = shard.sentence_offsets[shard.document_offsets]
    assert [shard.tokens[start:end].tolist() for start, end in pairwise(places)] == in_one
    sentences = running(pa.array(texts), tokenizer_kind(byte_tokenizer()).blank).to_pylist()
    assert sentences == [
        text if not place else text and f" {text}" for each in texts for place, text in enumerate(each)
    ]


def test_no_blank_stands_between_sentences_of_scripts_without() -> None:
    texts = [["他说：“走。”", "“好……”", "2020年来了。", "「はい」", "He went.", "東京", "で"], ["สวัสดี", "ครับ"]]
    expected = ["他说：“走。”", "“好……”", "2020年来了。", "「はい」", "He went.", " 東京", "で", "สวัสดี", " ครับ"]
    assert running(pa.array(texts), " ").to_pylist() == expected


def test_words_begin_at_blanks() -> None:
    vocabulary = Vocabulary.of(byte_tokenizer())
    encoding = byte_tokenizer().encode("every unfinished scheduler, compresses東京 buffers", add_special_tokens=False)
    begins = ~vocabulary.continues[np.array(encoding.ids)]
    assert [byte_tokenizer().id_to_token(i)[0] == "Ġ" for i in encoding.ids] == begins.tolist() and begins.sum() == 4


def test_the_report_knows_no_unknown_words() -> None:
    report = vocabulary_report(byte_tokenizer(), [["the parser reads 東京", " zzz"]])
    assert report["heldout_words"] == 5 and report["heldout_unknown_word_share"] == 0


def test_the_published_vocabulary_encodes_as_published(tmp_path: Path) -> None:
    """GPT-2's first merges, as they stand in the published file, and the ids they give."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "t"), ("Ġ", "a"), ("h", "e"), ("i", "n"), ("Ġt", "he")]
    entries = [*FIRST_ENTRIES[:-1], *alphabet, *(a + b for a, b in merges), "<mask>"]
    own = make_tokenizer({token: index for index, token in enumerate(entries)}, merges)
    save_tokenizer(own, tmp_path)
    assert own.encode("he in the a<mask>").tokens == ["<s>", "he", "Ġ", "in", "Ġthe", "Ġa", "<mask>", "</s>"]
    assert_equal_encodings(own, transformers.AutoTokenizer.from_pretrained(tmp_path), "he in the a <mask>")
