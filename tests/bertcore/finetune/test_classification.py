"""Sequence classification against `transformers`: token ids, truncation, loss, logits of the saved model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.apply.submission import MEMBERS, write_submission
from bertcore.errors import InputError
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.classification import Classification, Labelled
from bertcore.finetune.config import RunConfig
from bertcore.model.bert import BertConfig
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer

TEXT = st.text(st.sampled_from("abc dog,é!"), max_size=60)


@pytest.fixture(scope="module")
def reference(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> transformers.PreTrainedTokenizerBase:
    directory = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(tokenizer, directory, lowercase=True)
    return transformers.AutoTokenizer.from_pretrained(directory)


@settings(max_examples=50)
@given(rows=st.lists(st.tuples(TEXT, st.none() | TEXT), min_size=1, max_size=5))
def test_sequences_are_those_of_transformers(
    rows: list[tuple[str, str | None]],
    tokenizer: Tokenizer,
    reference: transformers.PreTrainedTokenizerBase,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    examples = make_examples(
        "classification", ["x"], ["accuracy"], train=[{"text_a": a, "text_b": b, "label": "x"} for a, b in rows]
    )
    features = Classification(make_task(sequence_length=16), examples, tokenizer).featurize(examples.splits["train"])
    # As lists, because a lone pair with an empty second text is taken for a single text there.
    texts = [([a],) if b is None else ([a], [b]) for a, b in rows]
    expected = [reference(*text, truncation=True, max_length=16) for text in texts]
    assert features.tokens.tolist() == [token for encoding in expected for token in encoding["input_ids"][0]]
    assert features.token_types.tolist() == [kind for encoding in expected for kind in encoding["token_type_ids"][0]]
    assert features.lengths.tolist() == [len(encoding["input_ids"][0]) for encoding in expected]
    whole = [reference(*text) for text in texts]
    assert features.counts == {"truncated": sum(len(encoding["input_ids"][0]) > 16 for encoding in whole)}


@pytest.mark.parametrize("labels", [["no", "yes", "maybe"], None])
def test_saved_model_gives_the_same_logits_and_loss_in_transformers(
    labels: list[str] | None,
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> None:
    texts = ["the red cat", "a dog is on the table", "blue"]
    gold = [0.5, 1.5, -3.0] if labels is None else labels
    rows = [{"text_a": text, "text_b": "what", "label": label} for text, label in zip(texts, gold, strict=True)]
    examples = make_examples("classification", labels, ["accuracy"], train=rows)
    family = Classification(make_task(), examples, tokenizer)
    torch.manual_seed(1)
    model = family.build(config).eval()
    torch.nn.init.normal_(model.classifier.weight)
    save_pretrained(model, tmp_path / "model", extra_config=family.exported(model).config)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    features = family.featurize(examples.splits["train"])
    batch = features.batch(np.arange(3))
    with torch.no_grad():
        logits = model(batch.input_ids, batch.token_type_ids, batch.layout)
        for row in range(3):
            one = features.batch(np.asarray([row]))
            tokens, types = one.input_ids[None], one.token_type_ids[None]
            expected = theirs(input_ids=tokens, token_type_ids=types, labels=one.targets)
            torch.testing.assert_close(logits[row : row + 1], expected.logits, atol=1e-6, rtol=1e-5)
            loss = family.loss(model, model(one.input_ids, one.token_type_ids, one.layout), one) / one.count
            torch.testing.assert_close(loss, expected.loss, atol=1e-6, rtol=1e-5)
    if labels is None:
        assert theirs.config.num_labels == 1 and theirs.config.problem_type == "regression"
    else:
        assert theirs.config.id2label == dict(enumerate(labels))


def test_predictions_file_is_what_glue_takes(tmp_path: Path) -> None:
    predictions = Labelled(ids=["0", "1"], predicted=["yes", "no"])
    predictions.write(tmp_path, "dev")
    assert (tmp_path / "dev.tsv").read_text() == "index\tprediction\n0\tyes\n1\tno\n"


def test_unknown_label_is_named_with_its_example(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    rows = [{"text_a": "a", "label": "x"}, {"text_a": "b", "label": "z"}]
    examples = make_examples("classification", ["x", "y"], ["accuracy"], train=rows)
    with pytest.raises(InputError, match=r"example 1: found the label 'z', expected one of x, y"):
        Classification(make_task(), examples, tokenizer).featurize(examples.splits["train"])


@settings(max_examples=50)
@given(rows=st.lists(st.tuples(TEXT, st.none() | TEXT), min_size=1, max_size=4), stride=st.integers(1, 20))
def test_windows_show_every_token_of_the_longer_text_and_pool_their_logits(
    rows: list[tuple[str, str | None]],
    stride: int,
    tokenizer: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    table = [{"text_a": a, "text_b": b, "label": "xy"[number % 2]} for number, (a, b) in enumerate(rows)]
    examples = make_examples("classification", ["x", "y"], ["accuracy"], train=table)
    task = make_task(sequence_length=12, long_texts="windows", doc_stride=stride)
    family = Classification(task, examples, tokenizer)
    features = family.featurize(examples.splits["train"])
    assert features.lengths.max() <= 12
    encoded = [tokenizer.encode(a) if b is None else tokenizer.encode(a, b) for a, b in rows]
    counts = np.bincount(features.examples, minlength=len(rows))
    assert features.counts["in_windows"] == (counts > 1).sum() and counts.min() >= 1
    offsets, separator = features.offsets, tokenizer.token_to_id("[SEP]")
    for row, (encoding, (a, b)) in enumerate(zip(encoded, rows, strict=True)):
        places = np.flatnonzero(features.examples == row)
        windows = [features.tokens[offsets[place] : offsets[place + 1]].tolist() for place in places]
        if len(encoding.ids) <= 12:
            kinds = features.token_types[offsets[places[0]] : offsets[places[0] + 1]]
            assert windows == [encoding.ids] and kinds.tolist() == encoding.type_ids
        longer = max(([a] if b is None else [a, b]), key=lambda text: len(tokenizer.encode(text).ids))
        needed = set(tokenizer.encode(longer, add_special_tokens=False).ids)
        assert needed <= {token for window in windows for token in window}
        assert all(window.count(separator) == (1 if b is None else 2) for window in windows)
    logits = np.random.default_rng(1).normal(size=(len(features), 2)).astype(np.float32)
    pooled = np.stack([logits[features.examples == row].mean(axis=0) for row in range(len(rows))])
    np.testing.assert_allclose(features.pooled(logits), pooled, rtol=1e-5, atol=1e-6)
    predicted = family.predict(examples.splits["train"], features, logits, None)  # type: ignore[arg-type]
    assert predicted.predicted == ["xy"[index] for index in pooled.argmax(axis=1)]


def test_test_predictions_are_what_a_submission_takes(
    tokenizer: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> None:
    train = [{"text_a": "a", "label": "0"}]
    test = [{"text_a": "b", "text_b": "a", "label": None}] * MEMBERS["WNLI.tsv"].rows
    examples = make_examples("classification", ["0", "1"], ["accuracy"], train=train, test=test)
    family = Classification(make_task(), examples, tokenizer)
    features = family.featurize(examples.splits["test"])
    logits = np.random.default_rng(1).normal(size=(len(test), 2)).astype(np.float32)
    predicted = family.predict(examples.splits["test"], features, logits, None)  # type: ignore[arg-type]
    predicted.write(tmp_path / "wnli", "test")
    written = write_submission(tmp_path, tmp_path / "out.zip", partial=True)
    assert written["written"] == ["WNLI.tsv"]
