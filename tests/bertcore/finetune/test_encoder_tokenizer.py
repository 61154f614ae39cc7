"""Directories of older checkpoints: a vocabulary is enough, and means what it means to `transformers`."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from bertcore.errors import ArtifactError, InputError
from bertcore.finetune.encoder_tokenizer import check_size, tokenizer_directory
from bertcore.model.bert import BertConfig
from bertcore.tokens.byte_bpe import save_tokenizer as save_byte_tokenizer
from bertcore.tokens.tokenizer import Vocabulary, load_tokenizer
from bertcore.tokens.wordpiece import SPECIAL_TOKENS, make_tokenizer
from tests.samples import byte_tokenizer

ENTRIES = [*SPECIAL_TOKENS, "the", "The", "cafe", "café", "##s", "中", "!", "x"]
TEXTS = ["The cafés!", "the CAFE x中 unknown", ""]


def older(directory: Path, **settings: Any) -> Path:
    directory.mkdir()
    (directory / "vocab.txt").write_text("\n".join(ENTRIES) + "\n")
    (directory / "config.json").write_text('{"model_type": "bert", "vocab_size": 13}')
    if settings:
        (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return directory


@pytest.mark.parametrize(
    "settings",
    [{}, {"do_lower_case": False, "model_max_length": 512}, {"do_lower_case": True}, {"model_max_length": int(1e30)}],
)
def test_ids_are_those_of_transformers(settings: dict[str, Any], tmp_path: Path) -> None:
    encoder = older(tmp_path / "encoder", **settings)
    theirs = transformers.AutoTokenizer.from_pretrained(encoder)
    with tokenizer_directory(encoder) as directory:
        own, again = load_tokenizer(directory), transformers.AutoTokenizer.from_pretrained(directory)
    assert not directory.exists() and not (encoder / "tokenizer.json").exists()
    for text in TEXTS:
        assert own.encode(text).ids == theirs(text)["input_ids"] == again(text)["input_ids"]
    assert own.encode(*TEXTS[:2]).ids == theirs(*TEXTS[:2])["input_ids"]
    assert again.model_max_length == theirs.model_max_length


def test_a_directory_with_a_whole_tokenizer_is_used_itself(tmp_path: Path) -> None:
    with tokenizer_directory(older(tmp_path / "encoder")) as directory, tokenizer_directory(directory) as found:
        assert found == directory


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"strip_accents": False}, ArtifactError, "tokenizer_config.json: strip_accents: found False, expected None"),
        ({"do_basic_tokenize": False}, ArtifactError, "do_basic_tokenize: found False, expected True, as the"),
        ({"word_tokenizer_type": "mecab"}, ArtifactError, "word_tokenizer_type: found 'mecab', expected 'basic'"),
        (
            {"tokenizer_class": "BertJapaneseTokenizer"},
            ArtifactError,
            "tokenizer_config.json: tokenizer_class: found 'BertJapaneseTokenizer', expected BertTokenizer or another "
            "that cuts texts as it does by vocab.txt alone; give another model, or the directory a tokenizer.json",
        ),
        ({"tokenizer_class": "RoFormerTokenizerFast"}, ArtifactError, "tokenizer_class: found 'RoFormerTokenizerFast'"),
        ({"do_lower_case": "yes"}, ArtifactError, "tokenizer_config.json: found .*expected an object with do_lower"),
        (None, ArtifactError, "encoder: found neither tokenizer.json nor vocab.txt, vocab.json with merges.txt"),
        ({}, InputError, r"vocab.txt: \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\] not found"),
    ],
)
def test_what_cannot_be_used_is_named(
    settings: dict[str, Any] | None, error: type[Exception], message: str, tmp_path: Path
) -> None:
    encoder = older(tmp_path / "encoder", **(settings or {}))
    if settings is None:
        (encoder / "vocab.txt").unlink()
    elif not settings:
        (encoder / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(error, match=message), tokenizer_directory(encoder):
        pass


@pytest.mark.parametrize(
    "name",
    [
        *("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast", None),
        *("PreTrainedTokenizerFast", "TokenizersBackend"),
    ],
)
def test_classes_that_cut_texts_as_bert_does_are_read(name: str | None, tmp_path: Path) -> None:
    encoder = older(tmp_path / "encoder", tokenizer_class=name)
    with tokenizer_directory(encoder) as directory:
        assert load_tokenizer(directory).encode("The cafés!").tokens[1:-1] == ["the", "cafe", "##s", "!"]


def test_a_class_may_stand_in_config_json(tmp_path: Path) -> None:
    encoder = older(tmp_path / "encoder")
    (encoder / "config.json").write_text('{"tokenizer_class": "BertJapaneseTokenizer"}')
    with pytest.raises(ArtifactError, match="config.json: tokenizer_class: found 'BertJ"), tokenizer_directory(encoder):
        pass
    (encoder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    with tokenizer_directory(encoder):
        pass


def test_every_id_needs_an_embedding_also_behind_a_gap() -> None:
    ids = {entry: index for index, entry in enumerate(ENTRIES)}
    gap = make_tokenizer(ids | {"x": 20}, lowercase=True)
    check_size(gap, BertConfig(vocab_size=21), "encoder")
    said = "encoder: vocab_size: found 20, expected at least the 13 entries of the tokenizer, whose ids go up to 20;"
    with pytest.raises(ArtifactError, match=said):
        check_size(gap, BertConfig(vocab_size=20), "encoder")
    vocabulary = Vocabulary.of(gap)
    assert vocabulary.size == len(vocabulary.special) == len(vocabulary.continues) == 21


def test_vocab_json_and_merges_are_a_tokenizer_too(tmp_path: Path) -> None:
    """As the first RoBERTas were published."""
    save_byte_tokenizer(byte_tokenizer(), tmp_path)
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).rename(encoder / name)
    with tokenizer_directory(encoder) as directory:
        assert load_tokenizer(directory).to_str() == byte_tokenizer().to_str()
    (encoder / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    said = "add_prefix_space: found True, expected False, as the published tokenizers of the kind byte_bpe"
    with pytest.raises(ArtifactError, match=said), tokenizer_directory(encoder):
        pass
