"""What a training starts from: random weights or a published encoder, and what does not fit is named."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertcore.errors import ArtifactError, ConfigError
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.model.layout import Layout
from bertcore.model.roberta import RobertaConfig
from bertcore.tokens.byte_bpe import save_tokenizer as save_byte_tokenizer
from bertcore.tokens.tokenizer import Vocabulary
from bertcore.tokens.wordpiece import make_tokenizer, save_tokenizer
from bertcore.training.config import PretrainConfig
from bertcore.training.initial import initial_model, with_entries
from tests.samples import byte_tokenizer, tokenizer, vocabulary

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture
def tokenizer_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "tokenizer"
    directory.mkdir()
    save_tokenizer(tokenizer(), directory, lowercase=True)
    return directory


def published(directory: Path, tokenizer_directory: Path, vocab_size: int | None = None) -> BertForPreTraining:
    model = BertForPreTraining(BertConfig(vocab_size=vocab_size or vocabulary().size, **SIZES))
    save_pretrained(model, directory, None if vocab_size else tokenizer_directory)
    return model


def test_weights_and_sizes_are_those_of_the_published_model(tmp_path: Path, tokenizer_directory: Path) -> None:
    original = published(tmp_path / "bert", tokenizer_directory)
    config = PretrainConfig(init_from="bert", model=ModelConfig(fields={"hidden_dropout_prob": 0.25}))
    model, missing = initial_model(config, vocabulary(), tokenizer_directory, tmp_path / "bert")
    assert model.config.hidden_size == 16 and model.config.hidden_dropout_prob == 0.25 and missing == []
    for name, tensor in original.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name


def test_without_one_the_weights_are_random_and_the_shape_is_the_presets(tokenizer_directory: Path) -> None:
    config = PretrainConfig(model=ModelConfig(preset="tiny"))
    model, missing = initial_model(config, vocabulary(), tokenizer_directory, Path("absent"))
    assert (model.config.hidden_size, model.config.vocab_size) == (128, vocabulary().size)
    assert missing == [], "nothing is missed where nothing was to be found"


def test_the_heads_that_a_published_encoder_lacks_are_named(tmp_path: Path, tokenizer_directory: Path) -> None:
    published(tmp_path / "bert", tokenizer_directory)
    file = tmp_path / "bert" / "model.safetensors"
    tensors = {name: tensor for name, tensor in load_file(file).items() if not name.startswith("cls.predictions.")}
    save_file(tensors, file, metadata={"format": "pt"})
    _, missing = initial_model(PretrainConfig(init_from="bert"), vocabulary(), tokenizer_directory, tmp_path / "bert")
    assert missing == [
        "cls.predictions.bias",
        "cls.predictions.transform.LayerNorm.bias",
        "cls.predictions.transform.LayerNorm.weight",
        "cls.predictions.transform.dense.bias",
        "cls.predictions.transform.dense.weight",
    ]


def test_another_vocabulary_is_named_with_the_first_entry_that_differs(
    tmp_path: Path, tokenizer_directory: Path
) -> None:
    published(tmp_path / "bert", tokenizer_directory)
    entries = (tmp_path / "bert" / "vocab.txt").read_text().split("\n")
    entries[7], entries[8] = entries[8], entries[7]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(entries))
    expected = rf"init_from: org/bert: found {entries[7]!r} as entry 7, expected {entries[8]!r}"
    with pytest.raises(ArtifactError, match=expected.replace("[", r"\[").replace("##", "##")):
        initial_model(PretrainConfig(init_from="org/bert"), vocabulary(), tokenizer_directory, tmp_path / "bert")


def test_without_vocab_txt_the_entries_of_tokenizer_json_count(tmp_path: Path, tokenizer_directory: Path) -> None:
    published(tmp_path / "bert", tokenizer_directory)
    (tmp_path / "bert" / "vocab.txt").unlink()
    begin = PretrainConfig(init_from="org/bert")
    initial_model(begin, vocabulary(), tokenizer_directory, tmp_path / "bert")
    path = tmp_path / "bert" / "tokenizer.json"
    values = json.loads(path.read_text())
    ids = values["model"]["vocab"]
    one, other = sorted(ids, key=ids.__getitem__)[7:9]
    ids[one], ids[other] = ids[other], ids[one]
    path.write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=re.escape(f"found {other!r} as entry 7, expected {one!r}")):
        initial_model(begin, vocabulary(), tokenizer_directory, tmp_path / "bert")
    path.unlink()
    with pytest.raises(ArtifactError, match="found neither vocab.txt, vocab.json nor tokenizer.json"):
        initial_model(begin, vocabulary(), tokenizer_directory, tmp_path / "bert")


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


UNCASED = {"type": "BertNormalizer", "clean_text": True, "lowercase": True, "strip_accents": None}
PIPELINE = "expected lowercase True, strip_accents True, handle_chinese_chars True as in "


@pytest.mark.parametrize(
    ("normalizer", "settings", "found", "remedy"),
    [
        (
            {**UNCASED, "lowercase": False, "handle_chinese_chars": True},
            {"do_lower_case": True},
            "lowercase False, strip_accents False, handle_chinese_chars True",
            "set tokenizer.lowercase: false and run `dvc repro tokenizer`",
        ),
        (
            None,
            {"do_lower_case": False},
            "lowercase False, strip_accents False, handle_chinese_chars True",
            "set tokenizer.lowercase: false and run",
        ),
        (
            {**UNCASED, "strip_accents": False, "handle_chinese_chars": True},
            {},
            "lowercase True, strip_accents False, handle_chinese_chars True",
            "no tokenizer of the pipeline does that; give another model",
        ),
        (
            {"type": "Lowercase"},
            {"do_lower_case": True, "tokenize_chinese_chars": False},
            "lowercase True, strip_accents True, handle_chinese_chars False",
            "no tokenizer of the pipeline does that",
        ),
    ],
)
def test_texts_that_are_normalised_otherwise_are_named_with_both_ways(
    normalizer: Any, settings: dict[str, Any], found: str, remedy: str, tmp_path: Path, tokenizer_directory: Path
) -> None:
    published(tmp_path / "bert", tokenizer_directory)
    change(tmp_path / "bert" / "tokenizer.json", normalizer=normalizer)
    change(tmp_path / "bert" / "tokenizer_config.json", **settings)
    with pytest.raises(
        ArtifactError, match=re.escape(f"init_from: org/bert: found a model of texts with {found}")
    ) as caught:
        initial_model(PretrainConfig(init_from="org/bert"), vocabulary(), tokenizer_directory, tmp_path / "bert")
    assert PIPELINE + str(tokenizer_directory) in str(caught.value) and remedy in str(caught.value)


def test_a_cased_model_goes_with_a_cased_tokenizer(tmp_path: Path, tokenizer_directory: Path) -> None:
    published(tmp_path / "bert", tokenizer_directory)
    cased = make_tokenizer(tokenizer().get_vocab(), lowercase=False)
    save_tokenizer(cased, tokenizer_directory, lowercase=False)
    begin = PretrainConfig(init_from="bert")
    with pytest.raises(ArtifactError, match="set tokenizer.lowercase: true and run"):
        initial_model(begin, vocabulary(), tokenizer_directory, tmp_path / "bert")
    save_tokenizer(cased, tmp_path / "bert", lowercase=False)
    initial_model(begin, vocabulary(), tokenizer_directory, tmp_path / "bert")


def test_a_published_model_that_says_nothing_of_letters_is_taken(tmp_path: Path, tokenizer_directory: Path) -> None:
    published(tmp_path / "bert", tokenizer_directory)
    (tmp_path / "bert" / "tokenizer.json").unlink()
    (tmp_path / "bert" / "tokenizer_config.json").write_text('{"strip_accents": null}')
    initial_model(PretrainConfig(init_from="bert"), vocabulary(), tokenizer_directory, tmp_path / "bert")
    (tmp_path / "bert" / "tokenizer_config.json").unlink()
    initial_model(PretrainConfig(init_from="bert"), vocabulary(), tokenizer_directory, tmp_path / "bert")


def test_a_model_too_small_for_the_vocabulary_is_refused_with_both_numbers(
    tmp_path: Path, tokenizer_directory: Path
) -> None:
    published(tmp_path / "bert", tokenizer_directory, vocab_size=50)
    expected = f"found a model with vocab_size 50, expected at least the {vocabulary().size} entries"
    with pytest.raises(ArtifactError, match=re.escape(expected)):
        initial_model(PretrainConfig(init_from="bert"), vocabulary(), tokenizer_directory, tmp_path / "bert")


def test_sizes_that_contradict_the_published_model_are_refused(tmp_path: Path, tokenizer_directory: Path) -> None:
    published(tmp_path / "bert", tokenizer_directory)
    config = PretrainConfig(init_from="bert", model=ModelConfig(fields={"hidden_size": 32, "num_attention_heads": 2}))
    with pytest.raises((ArtifactError, ConfigError), match=r"hidden_size.*16.*32|hidden_size.*32.*16"):
        initial_model(config, vocabulary(), tokenizer_directory, tmp_path / "bert")


def test_a_published_roberta_has_its_entries_in_vocab_json(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    save_byte_tokenizer(byte_tokenizer(), tmp_path / "tokenizer")
    own = Vocabulary.of(byte_tokenizer())
    original = build_pretraining(RobertaConfig(vocab_size=own.size, pad_token_id=own.pad, **SIZES))
    save_pretrained(original, tmp_path / "roberta", tmp_path / "tokenizer")
    begin = PretrainConfig(init_from="org/roberta", objective="mlm", model=ModelConfig(architecture="roberta"))
    model, missing = initial_model(begin, own, tmp_path / "tokenizer", tmp_path / "roberta")
    assert missing == [] and all(torch.equal(t, model.state_dict()[n]) for n, t in original.state_dict().items())
    path = tmp_path / "roberta" / "vocab.json"
    path.write_text(path.read_text().replace('"<pad>": 1', '"<other>": 1'))
    said = "found '<other>' as entry 1, expected '<pad>'.*vocab_file to org/roberta/vocab.json and tokenizer.merges_f"
    with pytest.raises(ArtifactError, match=said):
        initial_model(begin, own, tmp_path / "tokenizer", tmp_path / "roberta")


@pytest.mark.parametrize("rows", [None, 131], ids=["as many rows as entries", "more rows"])
def test_new_entries_begin_as_the_mean_of_their_old_pieces(
    rows: int | None, tmp_path: Path, tokenizer_directory: Path
) -> None:
    old, known = tokenizer(), vocabulary().size
    original = published(tmp_path / "bert", tokenizer_directory, rows)
    if rows:
        (tmp_path / "bert" / "vocab.txt").write_bytes((tokenizer_directory / "vocab.txt").read_bytes())
    words = ["tablecloths", "bufferness"]
    assert all(word not in old.get_vocab() for word in words)
    (tmp_path / "longer").mkdir()
    longer = make_tokenizer(old.get_vocab() | {word: known + place for place, word in enumerate(words)}, lowercase=True)
    save_tokenizer(longer, tmp_path / "longer", lowercase=True)
    begin = PretrainConfig(init_from="bert")
    model, missing = initial_model(begin, Vocabulary.of(longer), tmp_path / "longer", tmp_path / "bert")
    assert model.config.vocab_size == known + 2 and missing == []
    for name, tensor in original.state_dict().items():
        found = model.state_dict()[name]
        if tensor.shape[0] != original.config.vocab_size:
            assert torch.equal(found, tensor), name
            continue
        assert torch.equal(found[:known], tensor[:known]), name
        for place, word in enumerate(words):
            pieces = old.encode(word, add_special_tokens=False).ids
            assert len(pieces) > 1
            torch.testing.assert_close(found[known + place], tensor[pieces].mean(0))
    if rows is None:  # tokenizer.json is there, and says the same
        (tmp_path / "bert" / "vocab.txt").unlink()
        again, _ = initial_model(begin, Vocabulary.of(longer), tmp_path / "longer", tmp_path / "bert")
        assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_positions_are_no_entries_where_there_are_as_many_of_both() -> None:
    model = BertForPreTraining(BertConfig(**SIZES, vocab_size=50, max_position_embeddings=50))
    longer = with_entries(model, 50, [[1, 2]])
    assert longer.config.vocab_size == 51
    as_wide_inside = BertForPreTraining(BertConfig(**SIZES, vocab_size=SIZES["intermediate_size"]))
    assert with_entries(as_wide_inside, 32, [[1, 2]]).config.vocab_size == 33
    positions = [each.base_model.embeddings.position_embeddings.weight for each in (model, longer)]
    assert torch.equal(*positions)


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
def test_more_positions_repeat_the_published_ones(kind: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    if kind == "roberta":
        own = byte_tokenizer(400)
        save_byte_tokenizer(own, tmp_path / "tokenizer")
    else:
        own = tokenizer()
        save_tokenizer(own, tmp_path / "tokenizer", lowercase=True)
    reserved = 2 if kind == "roberta" else 0
    sizes = SIZES | {"vocab_size": Vocabulary.of(own).size, "max_position_embeddings": 10 + reserved}
    config = ARCHITECTURES[kind].config(**sizes | ({"hidden_dropout_prob": 0.0} if kind == "bert" else {}))
    original = build_pretraining(config)
    save_pretrained(original, tmp_path / "published", tmp_path / "tokenizer")
    begin = PretrainConfig(
        init_from="published",
        objective="mlm",
        model=ModelConfig(architecture=kind, fields={"max_position_embeddings": 24 + reserved}),
    )
    model, missing = initial_model(begin, Vocabulary.of(own), tmp_path / "tokenizer", tmp_path / "published")
    assert missing == [] and model.config.max_sequence_length == 24
    tables = [name for name in original.state_dict() if name.endswith("position_embeddings.weight")]
    for name, tensor in original.state_dict().items():
        found = model.state_dict()[name]
        if name not in tables:
            assert torch.equal(found, tensor), name
            continue
        rows = torch.cat([torch.arange(reserved), reserved + torch.arange(24) % 10])
        assert torch.equal(found, tensor[rows])
    assert bool(tables) == (kind != "modernbert")
    ids, short, long = (
        torch.arange(5, 29),
        Layout.from_lengths(torch.tensor([10])),
        Layout.from_lengths(torch.tensor([24])),
    )
    none = torch.zeros(24, dtype=torch.int64)
    with torch.no_grad():
        expected = original.eval()(ids[:10], none[:10], short, torch.tensor([3]))[0]
        assert torch.equal(model.eval()(ids[:10], none[:10], short, torch.tensor([3]))[0], expected)
        assert model(ids, none, long, torch.tensor([20]))[0].isfinite().all()
