"""ModernBERT's tokenizer: as others have published it, and one of one's own."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from bertcore.errors import ConfigError, InputError
from bertcore.shards.encoding import ByteEncoder, encoder_of
from bertcore.tokens.byte_bpe import FIRST_ENTRIES
from bertcore.tokens.modernbert_bpe import SPECIAL, make_tokenizer, read_tokenizer, save_tokenizer
from bertcore.tokens.tokenizer import (
    TokenizerConfig,
    Vocabulary,
    check_vocabulary_file,
    entries_in,
    load_tokenizer,
    tokenizer_kind,
    vocabulary_report,
)
from tests.samples import byte_tokenizer, modernbert_tokenizer, sentences

TEXTS = [
    *("Hello world", " Hello world", "a  b", "a   b ", "x\t y", "x    \t\ty", "\n", "don't we'll I'M", ""),
    *("a[MASK]b", "a  [MASK] b", "a\t [MASK]", "[SEP]", "[PAD] [CLS]x[SEP]", "a [unused1]b", "|||IP_ADDRESS|||"),
    *(
        "e\u0301 cafe\u0301s",
        " \u0301x",
        "हिन्दी में लिखा",
        "東京で、 会う",
        "👩‍👩‍👧 😀x",
        "\u00a0x\u3000y",
        "in New York now, New  York",
        "\x00 \ufffd",
    ),
]
"""With runs of blanks, which are entries, and letters whose accents stand for themselves."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as `transformers` saves it: the entries of a vocabulary, and behind them, in ModernBERT's order, runs
    of blanks, placeholders, special tokens and unused ones; types of a second text, and offsets with their blanks."""
    model = json.loads(byte_tokenizer().to_str())["model"]
    entries = [token for token in sorted(model["vocab"], key=model["vocab"].__getitem__) if token not in FIRST_ENTRIES]
    vocabulary = {token: index for index, token in enumerate(entries)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(each) for each in model["merges"]]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    runs = [" " * length for length in range(6, 1, -1)]
    tokenizer.add_tokens([AddedToken(each, normalized=True) for each in (*runs, "|||IP_ADDRESS|||", "New York")])
    ordered = ("<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
    tokenizer.add_special_tokens([AddedToken(each, lstrip=each == "[MASK]") for each in ordered])
    tokenizer.add_tokens([AddedToken(f"[unused{number}]", normalized=True) for number in range(2)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(each, tokenizer.token_to_id(each)) for each in ("[CLS]", "[SEP]")],
    )
    tokenizer.enable_truncation(8)
    directory = tmp_path_factory.mktemp("published")
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def theirs(published: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(published)


def test_a_published_tokenizer_is_read_with_all_its_entries(published: Path, theirs: Any, tmp_path: Path) -> None:
    own = read_tokenizer([published / "tokenizer.json"], None, "it")
    assert tokenizer_kind(own).name == "modernbert_bpe" and own.get_vocab() == theirs.get_vocab()
    for text in TEXTS:
        encoding = own.encode(text)
        assert encoding.ids == theirs(text)["input_ids"], text
    assert own.encode("the cache", "a file").type_ids == [0] * len(own.encode("the cache", "a file").ids)
    save_tokenizer(own, tmp_path, max_length=64)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert (again.mask_token, again.pad_token_id, again.model_max_length) == ("[MASK]", theirs.pad_token_id, 64)
    for text in TEXTS:
        assert again(text)["input_ids"] == theirs(text)["input_ids"], text
    assert "token_type_ids" not in again("a", "b")
    assert read_tokenizer([tmp_path / "tokenizer.json"], None, "it").to_str() == own.to_str()
    assert entries_in(published) == entries_in(tmp_path)


def test_a_directory_that_others_have_saved_is_laid_out_as_the_kind_is(published: Path) -> None:
    """Offsets are those of words, no blanks before them."""
    own = load_tokenizer(published)
    text = "the cache reads cafe\u0301s"
    encoding = own.encode(text, "a file")
    shown = [text[start:end] for start, end in encoding.offsets if end > start]
    assert not any(each.startswith(" ") for each in shown) and not any(encoding.type_ids)
    vocabulary = Vocabulary.of(own)
    ids, types = vocabulary.sequence(*(own.encode(each, add_special_tokens=False).ids for each in (text, "a file")))
    assert encoding.ids == ids.tolist() and encoding.type_ids == types.tolist()
    assert vocabulary.continues.sum() and not vocabulary.continues[own.token_to_id("  ")]


@settings(max_examples=150)
@given(text=st.text(max_size=60))
def test_ids_equal_those_of_transformers_on_any_text(theirs: Any, published: Path, text: str) -> None:
    assert load_tokenizer(published).encode(text).ids == theirs(text)["input_ids"]


def assert_words_give_the_same(tokenizer: Tokenizer, texts: list[str]) -> None:
    encoder = encoder_of(tokenizer)
    assert isinstance(encoder, ByteEncoder)
    tokens, offsets = encoder.encode(pa.array(texts, pa.string()))
    found = [tokens[start:end].tolist() for start, end in pairwise(offsets)]
    assert found == [each.ids for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


@settings(max_examples=300)
@given(
    st.lists(
        st.lists(
            st.one_of(st.text(max_size=6), st.sampled_from([*TEXTS, " ", "  ", "\u0301", "ᄀ", "ᅡ"])), max_size=8
        ).map("".join),
        max_size=6,
    )
)
def test_words_encoded_once_are_those_of_the_tokenizer(published: Path, texts: list[str]) -> None:
    assert_words_give_the_same(load_tokenizer(published), texts)


def test_each_pair_of_tricky_texts(published: Path) -> None:
    pairs = [one + between + two for one in TEXTS for two in TEXTS for between in ("", " ", "  ", "\t")]
    assert_words_give_the_same(load_tokenizer(published), pairs)
    assert_words_give_the_same(modernbert_tokenizer(), pairs)


def test_special_tokens_and_bytes_come_first_in_one_of_ones_own(tmp_path: Path) -> None:
    own = modernbert_tokenizer()
    save_tokenizer(own, tmp_path)
    entries = entries_in(tmp_path)
    assert entries[:5] == list(SPECIAL.names) and len(entries) == own.get_vocab_size() == 400
    assert entries[5:261] == sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = Vocabulary.of(own)
    assert (vocabulary.pad, vocabulary.mask, vocabulary.separators, vocabulary.segment_ids) == (0, 4, 1, False)
    report = vocabulary_report(own, [sentences(20, seed=3)])
    assert report["heldout_unknown_word_share"] == 0 and report["heldout_pieces_per_word"] < 2
    auto = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        here, there = own.encode(text), auto(text, return_offsets_mapping=True)
        assert here.ids == there["input_ids"] and here.offsets == [tuple(each) for each in there["offset_mapping"]]


def test_a_composed_letter_is_one() -> None:
    own = make_tokenizer({**{token: index for index, token in enumerate(SPECIAL.names)}, "Ã": 5, "©": 6}, [])
    assert own.encode("e\u0301", add_special_tokens=False).ids == [5, 6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v["pre_tokenizer"].update(add_prefix_space=True), "'add_prefix_space': True}.*give ModernBERT's"),
        (lambda v: v.update(normalizer=None), "the normalizer None, expected 'BPE', .* and NFC"),
        (lambda v: v["model"].update(type="Unigram"), "found a tokenizer of the model 'Unigram'"),
        (
            lambda v: next(each for each in v["added_tokens"] if each["content"] == "[MASK]").update(content="[M]"),
            r"it: \[MASK\] not found, expected ModernBERT's special tokens",
        ),
        (lambda v: v["model"]["vocab"].update(xyzzy=v["model"]["vocab"].pop("Ġt")), "expected both and 'Ġt' among"),
        (lambda v: v.update(model=3), "found entries alone, expected a whole tokenizer"),
    ],
)
def test_files_of_something_else_are_named(
    published: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    values = json.loads((published / "tokenizer.json").read_text())
    change(values)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=message):
        read_tokenizer([path], None, "it")


def test_the_kind_of_a_vocabulary_file_is_told(published: Path, tmp_path: Path) -> None:
    file = str(published / "tokenizer.json")
    check_vocabulary_file(TokenizerConfig(kind="modernbert_bpe", vocab_file=file))
    for kind in ("byte_bpe", "wordpiece"):
        with pytest.raises(ConfigError, match=f"kind 'modernbert_bpe' in .*expected '{kind}'.*set tokenizer.kind to"):
            check_vocabulary_file(TokenizerConfig(kind=kind, vocab_file=file))
    tokenizer_kind(byte_tokenizer()).save(byte_tokenizer(), tmp_path, None)
    with pytest.raises(ConfigError, match="kind 'byte_bpe' in .*expected 'modernbert_bpe'"):
        check_vocabulary_file(TokenizerConfig(kind="modernbert_bpe", vocab_file=str(tmp_path / "tokenizer.json")))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lowercase": True}, "modernbert_bpe keeps every byte"),
        ({"new_entries": 3, "vocab_file": "tokenizer.json"}, "expected 0 with kind modernbert_bpe"),
        ({"vocab_size": 261}, "expected more than the 261"),
        ({"vocab_file": "t/tokenizer.json", "merges_file": "m.txt"}, "expected none with kind modernbert_bpe"),
    ],
)
def test_what_the_section_cannot_say_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TokenizerConfig(**{"kind": "modernbert_bpe", **values})
