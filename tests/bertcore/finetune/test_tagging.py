"""Token tagging: every word once, in the right place; logits and loss of `transformers`."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.evaluation.tagging import read_columns
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import RunConfig
from bertcore.finetune.crf import LinearChain
from bertcore.finetune.features import IGNORED
from bertcore.finetune.tagging import Tagged, Tagging
from bertcore.model.bert import BertConfig
from bertcore.model.huggingface import save_pretrained

TAGS = ["B-X", "I-X", "O"]
UNUSED: Any = None
"""The model, whose logits say all."""
WORD = st.sampled_from(["red", "cat", "dogs", "berlin", "x", "\x01", "", "abcdefghijklmnopqrst", "é-b"])


@settings(max_examples=100)
@given(sentences=st.lists(st.lists(WORD, max_size=40), min_size=1, max_size=4), stride=st.integers(1, 20))
def test_every_word_has_one_place_and_it_holds_its_first_piece(
    sentences: list[list[str]],
    stride: int,
    tokenizer: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    rows = [{"words": words, "tags": [TAGS[len(word) % 3] for word in words]} for words in sentences]
    examples = make_examples("tagging", TAGS, ["f1"], train=rows)
    family = Tagging(make_task(sequence_length=12, doc_stride=stride), examples, tokenizer)
    features = family.featurize(examples.splits["train"])
    words = [word for sentence in sentences for word in sentence]
    pieces = [tokenizer.encode(word, add_special_tokens=False).ids for word in words]
    unknown = tokenizer.token_to_id("[UNK]")
    assert features.tokens[features.word_places].tolist() == [ids[0] if ids else unknown for ids in pieces]
    assert len(set(features.word_places.tolist())) == len(words)
    assert features.targets is not None
    assert features.targets[features.word_places].tolist() == [len(word) % 3 for word in words]
    assert (features.targets != -100).sum() == len(words)
    assert features.lengths.max(initial=0) <= 12
    assert features.counts["words_without_pieces"] == sum(not ids for ids in pieces)
    assert features.counts["words_cut"] == sum(len(ids) > 10 for ids in pieces)
    # Logits that name the word's tag at its place, and another one everywhere else, come back as that tag.
    logits = np.zeros((len(features.tokens), 3), dtype=np.float32)
    logits[features.word_places, [len(word) % 3 for word in words]] = 1.0
    predicted = family.predict(examples.splits["train"], features, logits, UNUSED)
    assert predicted.predicted == [row["tags"] for row in rows]


def test_words_without_pieces_are_counted(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    rows = [{"words": words, "tags": ["O"] * len(words)} for words in (["cat"], ["red", "\x01"], ["\x02"])]
    examples = make_examples("tagging", TAGS, ["f1"], train=rows)
    features = Tagging(make_task(), examples, tokenizer).featurize(examples.splits["train"])
    assert features.counts["words_without_pieces"] == 2


def test_short_sentence_is_one_sequence_as_in_transformers(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    words = ["The", "dogs", "is", "on", "Berlin", "!"]
    examples = make_examples("tagging", TAGS, ["f1"], train=[{"words": words, "tags": ["O"] * 6}])
    features = Tagging(make_task(), examples, tokenizer).featurize(examples.splits["train"])
    encoding = tokenizer.encode(words, is_pretokenized=True)
    assert features.tokens.tolist() == encoding.ids
    first = [encoding.word_ids.index(word) for word in range(6)]
    assert features.word_places.tolist() == first


def test_saved_model_gives_the_same_logits_and_loss_in_transformers(
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> None:
    examples = make_examples(
        "tagging", TAGS, ["f1"], train=[{"words": ["the", "dogs", "xyz"], "tags": ["O", "B-X", "I-X"]}]
    )
    family = Tagging(make_task(), examples, tokenizer)
    torch.manual_seed(1)
    model = family.build(config).eval()
    torch.nn.init.normal_(model.classifier.weight)
    save_pretrained(model, tmp_path / "model", extra_config=family.exported(model).config)
    theirs, info = transformers.AutoModelForTokenClassification.from_pretrained(
        tmp_path / "model", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    batch = family.featurize(examples.splits["train"]).batch(np.asarray([0]))
    assert batch.targets is not None
    with torch.no_grad():
        logits = model(batch.input_ids, batch.token_type_ids, batch.layout)
        expected = theirs.eval()(
            input_ids=batch.input_ids[None], token_type_ids=batch.token_type_ids[None], labels=batch.targets[None]
        )
    torch.testing.assert_close(logits, expected.logits[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(family.loss(model, logits, batch) / batch.count, expected.loss, atol=1e-6, rtol=1e-5)
    assert theirs.config.label2id == {"B-X": 0, "I-X": 1, "O": 2}


@settings(max_examples=50)
@given(sentences=st.lists(st.lists(WORD, max_size=30), min_size=1, max_size=3), names=st.sampled_from([TAGS, [*"BIO"]]))
def test_labels_on_all_pieces_stay_inside_of_their_word(
    sentences: list[list[str]],
    names: list[str],
    tokenizer: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    rows = [{"words": words, "tags": [names[len(word) % 3] for word in words]} for words in sentences]
    examples = make_examples("tagging", names, ["f1"], train=rows)
    first, every = (
        Tagging(make_task(sequence_length=12, labels_on=where), examples, tokenizer).featurize(examples.splits["train"])
        for where in ("first", "all")
    )
    assert first.targets is not None and every.targets is not None
    expected = first.targets.copy()
    pieces = [tokenizer.encode(word, add_special_tokens=False).ids for words in sentences for word in words]
    for place, ids in zip(first.word_places, pieces, strict=True):
        further = min(max(len(ids), 1), 10) - 1
        expected[place + 1 : place + 1 + further] = max(first.targets[place], 1)  # I-X behind B-X, else the same
    assert every.targets.tolist() == expected.tolist()


def test_chain_is_saved_in_the_config_and_predicts_with_it(
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> None:
    rows = [{"words": words, "tags": ["O"] * len(words)} for words in (["the", "dogs", "xyz"], [], ["cat"])]
    examples = make_examples("tagging", TAGS, ["f1"], train=rows)
    family = Tagging(make_task(crf=True), examples, tokenizer)
    model = family.build(config).eval()
    assert isinstance(model.crf, LinearChain)
    features = family.featurize(examples.splits["train"])
    with torch.no_grad():
        model.crf.start[0] = model.crf.transitions[0, 1] = model.crf.transitions[1, 2] = 100.0  # B-X I-X O
        batch = features.batch(np.arange(len(features)))
        logits = model(batch.input_ids, batch.token_type_ids, batch.layout)
        chosen = logits[features.word_places[:3]].log_softmax(-1)[[0, 1, 2], [2, 2, 2]]
        assert family.loss(model, logits, batch) > -chosen.sum()  # these tags follow each other against the chain
    predicted = family.predict(examples.splits["train"], features, logits.numpy(), model)
    assert predicted.predicted == [["B-X", "I-X", "O"], [], ["B-X"]]
    exported = family.exported(model)
    save_pretrained(exported.model, tmp_path / "model", extra_config=exported.config)
    again = LinearChain.from_config(json.loads((tmp_path / "model/config.json").read_text())["crf"])
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.crf.parameters(), strict=True))
    _, info = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]


def test_chain_of_a_long_sentence_goes_on_over_the_borders_of_its_windows(
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    words = ["red", "cat", "berlin", "x"] * 10
    examples = make_examples("tagging", TAGS, ["f1"], train=[{"words": words, "tags": ["O"] * 40}])
    family = Tagging(make_task(crf=True, sequence_length=12, doc_stride=5), examples, tokenizer)
    model = family.build(config).eval()
    assert isinstance(model.crf, LinearChain)
    features = family.featurize(examples.splits["train"])
    window = np.searchsorted(features.offsets[1:], features.word_places, side="right")
    assert (np.diff(window) >= 0).all() and len(features) > 3  # each window has consecutive words
    batch = features.batch(np.arange(len(features)))
    with torch.no_grad():
        model.crf.start[0] = 1000.0  # the sentence begins with B-X, and after it comes
        model.crf.transitions[0, 1] = model.crf.transitions[1, 1] = 100.0  # I-X to its end, in whatever window
        logits = model(batch.input_ids, batch.token_type_ids, batch.layout)
        loss = family.loss(model, logits, batch)
        emissions = logits[features.word_places]
        parts = [emissions[window == number] for number in np.unique(window)]
        chains = [model.crf.loss(part, torch.full((len(part),), 2), torch.tensor([len(part)])) for part in parts]
    assert family.predict(examples.splits["train"], features, logits.numpy(), model).predicted == [
        ["B-X", *["I-X"] * 39]
    ]
    torch.testing.assert_close(loss, torch.stack(chains).sum())


def test_windows_that_own_no_word_have_no_loss_of_a_chain(
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    examples = make_examples("tagging", TAGS, ["f1"], train=[{"words": ["red", "cat"], "tags": ["O", "O"]}])
    family = Tagging(make_task(crf=True), examples, tokenizer)
    model, features = family.build(config), family.featurize(examples.splits["train"])
    batch = features.batch(np.arange(len(features)))
    batch = replace(batch, targets=torch.full_like(batch.targets, IGNORED))
    family.loss(model, model(batch.input_ids, batch.token_type_ids, batch.layout), batch).backward()
    assert not any(each.grad.any() for each in model.parameters() if each.grad is not None)


def test_predictions_file_is_what_the_scorer_reads(tmp_path: Path) -> None:
    predictions = Tagged(
        words=[["a b", "c"], ["d"]], predicted=[["B-X Y", "O"], ["O"]], gold=[["B-X Y", "I-X Y"], ["O"]]
    )
    predictions.write(tmp_path, "dev")
    assert (tmp_path / "dev.txt").read_text() == "a_b B-X_Y B-X_Y\nc I-X_Y O\n\nd O O\n\n"
    assert read_columns(tmp_path / "dev.txt") == ([["B-X_Y", "I-X_Y"], ["O"]], [["B-X_Y", "O"], ["O"]])
