"""Question answering: windows that hide nothing, exact answers, and the loss and logits of `transformers`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.errors import ConfigError
from bertcore.evaluation.scoring import score
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import RunConfig
from bertcore.finetune.family import CHOICE
from bertcore.finetune.question_answering import QuestionAnswering, WindowFeatures
from bertcore.model.bert import BertConfig
from bertcore.model.huggingface import save_pretrained

CONTEXT = st.text(st.sampled_from("abcé, ÅB\u0301中\n"), max_size=120)


def question(context: str, *answers: tuple[str, int], question: str = "what is the colour?") -> dict[str, Any]:
    spans = [{"text": text, "answer_start": start} for text, start in answers]
    return {"context": context, "question": question, "answers": spans}


@settings(max_examples=100)
@given(context=CONTEXT, stride=st.integers(1, 20), data=st.data())
def test_windows_show_all_tokens_and_targets_give_the_answer_back(
    context: str,
    stride: int,
    data: st.DataObject,
    tokenizer: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    characters = tokenizer.encode(context, add_special_tokens=False).offsets
    answers = []
    if characters:
        first = data.draw(st.integers(0, len(characters) - 1))
        last = data.draw(st.integers(first, min(first + 3, len(characters) - 1)))
        answers = [(context[characters[first][0] : characters[last][1]], characters[first][0])]
    examples = make_examples("question_answering", None, ["f1"], train=[question(context, *answers)])
    family = QuestionAnswering(make_task(sequence_length=20, doc_stride=stride), examples, tokenizer)
    features = family.featurize(examples.splits["train"])
    assert features.lengths.max() <= 20
    shown = {tuple(pair) for pair in features.characters.tolist()} - {(0, 0)}
    assert shown == set(characters)
    # Each token of the context may begin an answer in exactly one window.
    assert features.owned.sum() == len(characters)
    assert {tuple(pair) for pair in features.characters[features.owned].tolist()} == set(characters)
    assert features.targets is not None
    for start, spans in zip(features.offsets, features.targets, strict=False):
        if spans.any():
            begin, end = features.characters[start + spans[0], 0], features.characters[start + spans[1], 1]
            assert context[begin:end] == answers[0][0]


UNUSED: Any = None
"""The model, whose logits say all."""


def predicted(
    family: QuestionAnswering, examples: ExampleSet, features: WindowFeatures, seed: int = 0
) -> tuple[Any, np.ndarray]:
    logits = np.random.default_rng(seed).normal(size=(len(features.tokens), 2)).astype(np.float32)
    return family.predict(examples.splits["train"], features, logits, UNUSED), logits


@settings(max_examples=50)
@given(context=CONTEXT, seed=st.integers(0, 1000))
def test_answers_are_parts_of_the_context(
    context: str,
    seed: int,
    tokenizer: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    examples = make_examples("question_answering", None, ["f1"], train=[question(context)])
    family = QuestionAnswering(make_task(n_best=4, max_answer_length=5), examples, tokenizer)
    features = family.featurize(examples.splits["train"])
    answers, _ = predicted(family, examples, features, seed)
    found = answers.n_best["0"]
    assert 1 <= len(found) <= 4
    assert all(entry["text"] in context for entry in found)
    assert "" in [entry["text"] for entry in found]  # there are questions without an answer
    assert answers.null_odds is not None
    assert (answers.predicted["0"] == "") == (answers.null_odds["0"] > 0)


def test_sequences_are_those_of_transformers_where_all_fits(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    row = question("The cat is on the table, in Berlin.", ("Berlin", 28))
    examples = make_examples("question_answering", None, ["f1"], train=[row])
    features = QuestionAnswering(make_task(), examples, tokenizer).featurize(examples.splits["train"])
    expected = tokenizer.encode(row["question"], row["context"])
    assert features.tokens.tolist() == expected.ids
    assert features.token_types.tolist() == expected.type_ids
    assert features.targets is not None
    assert [expected.tokens[place] for place in features.targets[0]] == ["berlin", "berlin"]


def test_long_question_and_unplaced_answer_are_counted(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    rows = [question("cat " * 40, ("cat", 0), question="the " * 9), question("cat", ("cat", -1)), question("cat")]
    examples = make_examples("question_answering", None, ["f1"], train=rows)
    features = QuestionAnswering(make_task(), examples, tokenizer).featurize(examples.splits["train"])
    assert features.counts == {"questions_cut": 1, "contexts_in_windows": 1, "answers_without_tokens": 1}
    assert features.targets is not None
    assert features.targets[-2:].tolist() == [[-100, -100], [0, 0]]
    assert features.batch(np.arange(len(features))).count == 2 * (len(features) - 1)


def test_saved_model_gives_the_same_logits_and_loss_in_transformers(
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> None:
    rows = [question("the cat is in berlin", ("berlin", 14)), question("a river", ("river", 2)), question("x")]
    examples = make_examples("question_answering", None, ["f1"], train=rows)
    family = QuestionAnswering(make_task(), examples, tokenizer)
    torch.manual_seed(1)
    model = family.build(config).eval()
    torch.nn.init.normal_(model.qa_outputs.weight)
    save_pretrained(model, tmp_path / "model", extra_config=family.exported(model).config)
    theirs, info = transformers.AutoModelForQuestionAnswering.from_pretrained(
        tmp_path / "model", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    features = family.featurize(examples.splits["train"])
    losses = []
    with torch.no_grad():
        for row in range(3):
            batch = features.batch(np.asarray([row]))
            assert batch.targets is not None
            logits = model(batch.input_ids, batch.token_type_ids, batch.layout)
            expected = theirs.eval()(
                input_ids=batch.input_ids[None],
                token_type_ids=batch.token_type_ids[None],
                start_positions=batch.targets[:, 0],
                end_positions=batch.targets[:, 1],
            )
            torch.testing.assert_close(logits[:, 0], expected.start_logits[0], atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(logits[:, 1], expected.end_logits[0], atol=1e-6, rtol=1e-5)
            losses.append(expected.loss)
        batch = features.batch(np.arange(3))
        loss = family.loss(model, model(batch.input_ids, batch.token_type_ids, batch.layout), batch) / batch.count
    torch.testing.assert_close(loss, torch.stack(losses).mean(), atol=1e-6, rtol=1e-5)


def test_files_are_in_the_official_layout(
    tokenizer: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> None:
    examples = make_examples(
        "question_answering", None, ["f1", "exact_match"], train=[question("a red cat", ("red", 2))]
    )
    family = QuestionAnswering(make_task(), examples, tokenizer)
    features = family.featurize(examples.splits["train"])
    logits = np.zeros((len(features.tokens), 2), dtype=np.float32)
    assert features.targets is not None
    logits[features.targets[0, 0], 0] = logits[features.targets[0, 1], 1] = 5.0
    logits[0] = 9.0  # [CLS], which is no answer where every question has one
    answers = family.predict(examples.splits["train"], features, logits, UNUSED)
    answers.write(tmp_path, "dev")
    assert json.loads((tmp_path / "dev.json").read_text()) == {"0": "red"}
    (best, *_) = json.loads((tmp_path / "dev_nbest.json").read_text())["0"]
    assert best.keys() == {"text", "probability", "start_logit", "end_logit"} and best["text"] == "red"
    assert not (tmp_path / "dev_null_odds.json").exists()
    found = score(examples, examples.splits["train"], answers.predicted, ["f1", "exact_match"])
    assert found == {"f1": 1.0, "exact_match": 1.0}


def test_question_must_leave_room_for_the_context(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    examples = make_examples("question_answering", None, ["f1"], train=[question("a")])
    with pytest.raises(ConfigError, match="sequence_length: found 32, expected at least 34 with max_query_length 30"):
        QuestionAnswering(make_task(max_query_length=30), examples, tokenizer)


def test_null_threshold_is_tuned_on_what_is_kept_back_for_all_splits(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    rows = [question("a red cat", ("red", 2)), question("a dog"), question("blue bird", ("bird", 5)), question("city")]
    examples = make_examples("question_answering", None, ["f1"], train=rows, dev=rows, test=rows[:2])
    family = QuestionAnswering(make_task(null_threshold="tuned"), examples, tokenizer)
    predictions = {}
    for split in ("dev", "test", CHOICE):
        features = family.featurize(examples.splits["dev" if split == CHOICE else split])
        logits = np.zeros((len(features.tokens), 2), dtype=np.float32)
        offsets = features.offsets
        for row, null in enumerate((1.0, 9.0, 3.0, 8.0)[: len(features)]):
            span = features.targets[row] if features.targets is not None and features.targets[row].any() else (8, 8)
            logits[offsets[row] + span[0], 0] = logits[offsets[row] + span[1], 1] = 2.0
            logits[offsets[row]] = null  # odds 2 * null - 4: -2, 14, 2, 12
        table = examples.splits["dev" if split == CHOICE else split]
        predictions[split] = family.predict(table, features, logits, UNUSED)

    def f1() -> float:
        return score(examples, examples.splits["dev"], predictions["dev"].predicted, ["f1"])["f1"]

    untouched = f1()
    assert family.tune(predictions) == {"null_threshold": 2.0}
    assert untouched == 0.75 and f1() == 1.0
    assert predictions["dev"].predicted == {"0": "red", "1": "", "2": "bird", "3": ""}
    assert predictions["test"].null_threshold == 2.0
    fixed = QuestionAnswering(make_task(null_threshold=-5.0), examples, tokenizer)
    assert fixed.tune(predictions) == {}


def test_the_best_answer_is_listed_beside_none(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    rows = [question("a red cat", ("red", 2)), question("a dog")]
    examples = make_examples("question_answering", None, ["f1"], train=rows, dev=rows)
    family = QuestionAnswering(make_task(n_best=1), examples, tokenizer)
    features = family.featurize(examples.splits["dev"])
    found = family.predict(examples.splits["dev"], features, np.ones((len(features.tokens), 2), np.float32), UNUSED)
    assert [len(each) for each in found.n_best.values()] == [2, 2]
    assert all(each[-1]["text"] == "" and each[0]["text"] for each in found.n_best.values())


def test_threshold_where_no_answer_is_always_best(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    examples = make_examples("question_answering", None, ["f1"], train=[question("dog")], dev=[question("dog")])
    family = QuestionAnswering(make_task(null_threshold="tuned"), examples, tokenizer)
    features = family.featurize(examples.splits["dev"])
    logits = np.ones((len(features.tokens), 2), dtype=np.float32)
    logits[0] = -9.0  # the model is sure of an answer, and wrong
    found = family.predict(examples.splits["dev"], features, logits, UNUSED)
    predictions = {"dev": found, CHOICE: found}
    (threshold,) = family.tune(predictions).values()
    assert threshold < -20 and predictions["dev"].predicted == {"0": ""}
