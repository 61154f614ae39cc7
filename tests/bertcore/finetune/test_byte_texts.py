"""Tasks read by byte-level BPE of both kinds, in scripts of which a character is several tokens, against transformers'
tokenizer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.apply.finetuned import FineTuned
from bertcore.examples.schema import TAGGING, ExampleSet
from bertcore.finetune.config import RunConfig
from bertcore.finetune.question_answering import QuestionAnswering
from bertcore.finetune.tagging import Tagging
from bertcore.finetune.texts import TextReader
from bertcore.model.config import build_head
from bertcore.model.huggingface import READING, label_names, save_pretrained
from bertcore.model.roberta import RobertaConfig
from bertcore.tokens.byte_bpe import save_tokenizer
from bertcore.tokens.tokenizer import tokenizer_kind
from tests.samples import byte_tokenizer, modernbert_tokenizer

TAGS = ["B-X", "I-X", "O"]
UNUSED: Any = None
"""The model, whose logits say all."""
SENTENCES = [
    ["the", "parser", "reads", "the", "file", "."],
    ["हिन्दी", "में", "लिखा", "हुआ", "वाक्य", "।"],
    ["東京", "で", "会う", "。"],
    ["👩‍👩‍👧", "😀", "e\u0301te\u0301", "naïve", "\u0301", "x"],
    ["don", "'t", "the", "3.14", "–", "“quoted”"],
]
CONTEXT = st.text(st.sampled_from("abthe , é中\U0001f600ह\u093fe\u0301\n"), max_size=60)


@pytest.fixture(scope="module", params=[byte_tokenizer, modernbert_tokenizer], ids=["byte_bpe", "modernbert_bpe"])
def read_by(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture(scope="module")
def theirs(read_by: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("tokenizer")
    tokenizer_kind(read_by).save(read_by, directory, None)
    return transformers.AutoTokenizer.from_pretrained(directory)


def test_words_have_the_tokens_of_their_sentence_and_each_one_place(
    read_by: Tokenizer,
    theirs: Any,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    """A word within a sentence has the blank before it, the first one has none."""
    rows = [{"words": words, "tags": [TAGS[len(word) % 3] for word in words]} for words in SENTENCES]
    examples = make_examples("tagging", TAGS, ["f1"], train=rows)
    family = Tagging(make_task(sequence_length=128), examples, read_by)
    features = family.featurize(examples.splits["train"])
    encodings = [theirs(" ".join(words), return_offsets_mapping=True) for words in SENTENCES]
    assert features.tokens.tolist() == [index for each in encodings for index in each["input_ids"]]
    expected, before = [], 0
    for words, encoding in zip(SENTENCES, encodings, strict=True):
        begins = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
        for begin in begins.tolist():  # a word's first token is the first that shows a character of it, or its blank
            shown = [place for place, (_, end) in enumerate(encoding["offset_mapping"][1:-1], 1) if end > begin]
            blank = shown[0] - 1
            alone = blank and encoding["offset_mapping"][blank] == (begin, begin)
            expected.append(before + (blank if alone else shown[0]))
        before += len(encoding["input_ids"])
    assert features.word_places.tolist() == expected
    assert features.targets is not None
    assert features.targets[features.word_places].tolist() == [len(word) % 3 for words in SENTENCES for word in words]
    logits = np.zeros((len(features.tokens), 3), dtype=np.float32)
    logits[features.word_places, features.targets[features.word_places]] = 1.0
    predicted = family.predict(examples.splits["train"], features, logits, UNUSED).predicted
    assert predicted == [row["tags"] for row in rows]


def test_windows_of_words_that_are_longer_than_a_sequence(
    read_by: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    rows = [{"words": words * 3, "tags": ["O"] * (3 * len(words))} for words in SENTENCES]
    examples = make_examples("tagging", TAGS, ["f1"], train=rows)
    features = Tagging(make_task(sequence_length=12, doc_stride=3), examples, read_by).featurize(
        examples.splits["train"]
    )
    places = features.word_places.tolist()
    assert len(set(places)) == len(places) == sum(len(row["words"]) for row in rows)
    assert features.lengths.max() <= 12 and features.counts["words_cut"] and not features.counts["words_without_pieces"]


def asked(context: str, answer: str) -> dict[str, Any]:
    spans = [{"text": answer, "answer_start": context.index(answer)}]
    return {"context": context, "question": "what is it?", "answers": spans}


def predicted_from_targets(family: QuestionAnswering, examples: ExampleSet) -> dict[str, str]:
    """The answers by logits that name exactly the targets."""
    table = examples.splits["train"]
    features = family.featurize(table)
    assert features.targets is not None
    logits = np.zeros((len(features.tokens), 2), dtype=np.float32)
    for start, (first, last) in zip(features.offsets[:-1], features.targets, strict=True):
        logits[start + first, 0] = logits[start + last, 1] = 9.0
    return family.predict(table, features, logits, UNUSED).predicted


@pytest.mark.parametrize("sequence_length", [32, 128])
@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("the parser reads the file", "parser reads"),
        ("दिल्ली भारत की राजधानी है।", "भारत"),
        ("日本の首都は東京です。", "東京"),
        ("she said 👩‍👩‍👧 and 😀!", "😀"),
        ("un cafe\u0301 noir", "cafe\u0301"),
        (" leading blanks  stay", "blanks"),
    ],
)
def test_an_answer_in_any_script_comes_back_as_it_is(
    context: str,
    answer: str,
    sequence_length: int,
    read_by: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    examples = make_examples("question_answering", None, ["f1"], train=[asked(context, answer)])
    task = make_task(sequence_length=sequence_length, max_query_length=6, doc_stride=4)
    found = predicted_from_targets(QuestionAnswering(task, examples, read_by), examples)
    assert list(found.values()) == [answer]


@settings(max_examples=100)
@given(context=CONTEXT, data=st.data())
def test_an_answer_is_found_wherever_it_stands(
    context: str,
    data: st.DataObject,
    read_by: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    """With the marks on its last character, and without blanks around it."""
    visible = [place for place, character in enumerate(context) if not character.isspace() and character != "\u0301"]
    if not visible:
        return
    first = data.draw(st.sampled_from(visible))
    last = data.draw(st.sampled_from([place for place in visible if first <= place < first + 6]))
    answer = context[first : last + 1]
    row = {"context": context, "question": "?", "answers": [{"text": answer, "answer_start": first}]}
    examples = make_examples("question_answering", None, ["f1"], train=[row])
    family = QuestionAnswering(make_task(sequence_length=512, max_answer_length=60), examples, read_by)
    (found,) = predicted_from_targets(family, examples).values()
    # The tokens that hold the answer may hold more of the text: a token of several characters is not cut.
    assert answer in found and found in context


def test_texts_and_pairs_are_those_of_transformers(
    read_by: Tokenizer, theirs: Any, make_task: Callable[..., RunConfig]
) -> None:
    texts = [" ".join(words) for words in SENTENCES]
    pairs = list(zip(texts, texts[::-1], strict=True))
    for given_texts in (texts, pairs):
        features = TextReader(make_task(sequence_length=24), read_by).read(given_texts)
        cut = {"truncation": True, "max_length": 24}
        expected = [theirs(*([text] if isinstance(text, str) else text), **cut)["input_ids"] for text in given_texts]
        assert features.tokens.tolist() == [index for ids in expected for index in ids]
        assert not features.token_types.any()
    windows = TextReader(make_task(sequence_length=16, long_texts="windows"), read_by).read(pairs)
    assert windows.lengths.max() <= 16 and not windows.token_types.any()


def test_a_saved_tagger_tags_words_of_any_script(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(byte_tokenizer(), tmp_path / "tokenizer")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(1)
    model = build_head(RobertaConfig(vocab_size=400, max_position_embeddings=66, **sizes), "token_classification", 3)
    reading = {READING: {"sequence_length": 32, "doc_stride": 8}, **label_names(TAGS)}
    save_pretrained(model, tmp_path / "model", tmp_path / "tokenizer", reading)
    tagger = FineTuned.load(tmp_path / "model", "tag")
    sentences = [*(words * 4 for words in SENTENCES), ["the", "parser", "reads"]]
    rows = [{"id": str(number), "words": words} for number, words in enumerate(sentences)]
    *found, tags = tagger.predict(pa.Table.from_pylist(rows, TAGGING)).predictions.predicted
    assert [len(each) for each in found] == [4 * len(words) for words in SENTENCES]
    classify = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert tokenizer.model_max_length == 64
    inputs = tokenizer("the parser reads", return_tensors="pt")
    logits = classify(**inputs).logits[0]
    places = [inputs.word_ids().index(word) for word in range(3)]
    assert tags == [TAGS[index] for index in logits[places].argmax(-1).tolist()]
