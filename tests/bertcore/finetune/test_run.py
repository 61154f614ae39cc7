"""The loop: each family learns a toy task, the same seed gives the same bits, and what cannot be is refused."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.errors import ArtifactError, ConfigError, InputError, TrainingError
from bertcore.examples.schema import ExampleSet
from bertcore.export import verify
from bertcore.export.probe import Expected
from bertcore.finetune import inference
from bertcore.finetune.config import RunConfig
from bertcore.finetune.inference import logits_of
from bertcore.finetune.loop import batches
from bertcore.finetune.run import Finetuning
from bertcore.model.bert import BertConfig, BertForPreTraining, BertForSequenceClassification
from bertcore.model.config import ARCHITECTURES
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained

COLOURS, NOUNS = ["red", "green", "blue"], ["cat", "dog", "bird", "table", "river"]


def sentences(count: int, seed: int) -> list[list[str]]:
    generator = random.Random(seed)
    return [generator.choices([*COLOURS, *NOUNS, "the", "is", "on"], k=generator.randint(3, 9)) for _ in range(count)]


def classification(words: list[str]) -> dict[str, Any]:
    """Is there a cat?"""
    return {"text_a": " ".join(words), "label": "yes" if "cat" in words else "no"}


def pair(words: list[str]) -> dict[str, Any]:
    """Is there a cat in the second text?"""
    return {"text_a": "where is the cat", "text_b": " ".join(words), "label": "yes" if "cat" in words else "no"}


def multi_label(words: list[str]) -> dict[str, Any]:
    """Which animals are there?"""
    return {"text_a": " ".join(words), "labels": sorted({"cat", "dog", "bird"} & set(words))}


def regression(words: list[str]) -> dict[str, Any]:
    """The share of colours."""
    return {"text_a": " ".join(words), "label": sum(word in COLOURS for word in words) / len(words)}


def tagging(words: list[str]) -> dict[str, Any]:
    """Colours are entities."""
    return {"words": words, "tags": ["B-COLOUR" if word in COLOURS else "O" for word in words]}


def question_answering(words: list[str]) -> dict[str, Any]:
    """Where is berlin?"""
    words = [*words[:-1], "berlin", *words[-1:]]
    start = len(" ".join(words[:-2])) + 1
    return {
        "context": " ".join(words),
        "question": "what city?",
        "answers": [{"text": "berlin", "answer_start": start}],
    }


TOYS: dict[str, tuple[Callable[[list[str]], dict[str, Any]], str, list[str] | None, str, float]] = {
    "single": (classification, "classification", ["no", "yes"], "accuracy", 0.95),
    "pair": (pair, "classification", ["no", "yes"], "accuracy", 0.95),
    "multi_label": (multi_label, "multi_label", ["bird", "cat", "dog"], "micro_f1", 0.75),
    "regression": (regression, "classification", None, "pearson", 0.9),
    "tagging": (tagging, "tagging", ["B-COLOUR", "O"], "f1", 0.95),
    "question_answering": (question_answering, "question_answering", None, "f1", 0.95),
}

Toy = Callable[..., ExampleSet]


@pytest.fixture
def toy(make_examples: Callable[..., ExampleSet]) -> Toy:
    def make(name: str, size: int = 256) -> ExampleSet:
        row, family, labels, metric, _ = TOYS[name]
        train, dev = map(row, sentences(size, 1)), map(row, sentences(64, 2))
        test = [{**row(words), **dict.fromkeys(("label", "labels", "tags", "answers"))} for words in sentences(5, 3)]
        return make_examples(family, labels, [metric], train=list(train), dev=list(dev), test=test)

    return make


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        *((name, {}) for name in TOYS),
        ("tagging", {"crf": True, "learning_rate": 5e-3}),
        ("tagging", {"labels_on": "all", "layer_decay": 0.9}),
        ("single", {"long_texts": "windows", "sequence_length": 10, "group_by_length": True}),
    ],
)
def test_toy_task_is_learned_from_random_weights(
    name: str,
    fields: dict[str, Any],
    toy: Toy,
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    tmp_path: Path,
) -> None:
    *_, metric, least = TOYS[name]
    steps: list[int] = []
    task = make_task(epochs=12, batch_size=16, **fields)
    prepared = Finetuning(task, toy(name), tokenizer)
    result = prepared.run(config, report=lambda step, metrics: steps.append(step))
    assert result.metrics.keys() == {"dev"} and result.metrics["dev"][metric] >= least
    assert result.predictions.keys() == {"dev", "test"}
    assert result.steps == 12 * -(-prepared.counts["train"]["sequences"] // 16) == steps[-1]
    assert [row["step"] for row in result.curves] == steps == sorted(steps)
    assert result.curves[-1][f"eval/{metric}"] == result.metrics["dev"][metric]
    assert prepared.counts["train"]["examples"] == 256
    assert prepared.counts["test"]["sequences"] == (7 if "long_texts" in fields else 5)
    result.save_predictions(tmp_path / "predictions")
    suffix = {"tagging": "txt", "question_answering": "json"}.get(name, "tsv")
    assert {f"dev.{suffix}", f"test.{suffix}"} <= {path.name for path in (tmp_path / "predictions").iterdir()}


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])


@pytest.mark.parametrize("name", ["single", "tagging", "question_answering"])
def test_same_seed_gives_the_same_bits(
    name: str, toy: Toy, tokenizer: Tokenizer, config: BertConfig, make_task: Callable[..., RunConfig]
) -> None:
    task = make_task(epochs=1, dropout=0.1)
    prepared = Finetuning(task, toy(name, 64), tokenizer)
    first, other_seed, again = (prepared.run(config, replace(task, seed=seed)) for seed in (7, 8, 7))
    assert torch.equal(weights(first.model), weights(again.model))
    assert first.metrics == again.metrics and first.curves == again.curves
    assert not torch.equal(weights(first.model), weights(other_seed.model))
    alone = Finetuning(replace(task, seed=7), toy(name, 64), tokenizer).run(config)
    assert torch.equal(weights(first.model), weights(alone.model))


def test_micro_batches_change_nothing_but_rounding(
    toy: Toy,
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared = Finetuning(make_task(epochs=1), toy("tagging", 64), tokenizer)
    whole = prepared.run(config)
    monkeypatch.setenv("BERTCORE_MICRO_BATCH", "5")
    parts = prepared.run(config)
    torch.testing.assert_close(weights(parts.model), weights(whole.model), atol=1e-4, rtol=1e-3)
    assert parts.curves[0]["train/loss"] == pytest.approx(whole.curves[0]["train/loss"], rel=1e-5)


def test_starts_from_a_pretrained_encoder_and_saves_what_transformers_loads(
    toy: Toy,
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    tmp_path: Path,
) -> None:
    torch.manual_seed(3)
    pretrained = BertForPreTraining(config)
    save_pretrained(pretrained, tmp_path / "pretrained", saved_tokenizer)
    examples = toy("single", 32)
    # A learning rate that moves nothing: the encoder must come back as it was.
    result = Finetuning(make_task(epochs=1, learning_rate=1e-30), examples, tokenizer).run(tmp_path / "pretrained")
    encoder = result.model.get_submodule("bert")
    torch.testing.assert_close(weights(encoder), weights(pretrained.bert), atol=1e-29, rtol=0)
    result.save_model(tmp_path / "finetuned", saved_tokenizer)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "finetuned").eval()
    encode = transformers.AutoTokenizer.from_pretrained(tmp_path / "finetuned")
    dev = examples.splits["dev"]["text_a"].to_pylist()
    with torch.no_grad():
        best = [int(theirs(**encode(text, return_tensors="pt")).logits.argmax()) for text in dev]
    assert [theirs.config.id2label[index] for index in best] == result.predictions["dev"].predicted  # type: ignore[attr-defined]
    # And the result is an encoder for the next task, whose head is another one.
    again = Finetuning(make_task(epochs=1), toy("regression", 32), tokenizer).run(tmp_path / "finetuned")
    assert again.metrics["dev"].keys() == {"pearson"}


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
@pytest.mark.parametrize("name", ["single", "tagging", "question_answering"])
def test_what_is_saved_predicts_the_same(
    name: str,
    architecture: str,
    toy: Toy,
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    configs: dict[str, EncoderConfig],
    make_task: Callable[..., RunConfig],
    tmp_path: Path,
) -> None:
    prepared = Finetuning(make_task(epochs=8, batch_size=16), toy(name, 96), tokenizer)
    trained = prepared.train(configs[architecture])
    losses = [row["train/loss"] for row in trained.curves if "train/loss" in row]
    assert losses[-1] < 0.7 * losses[0]
    result = prepared.result(trained)
    result.save_model(tmp_path / "model", saved_tokenizer)
    torch.manual_seed(9)
    loaded = prepared.build(load_config(tmp_path / "model"), make_task()).to(prepared.accelerator.device)
    assert load_pretrained(loaded, tmp_path / "model").missing == []
    again = {split: logits_of(loaded, prepared._features[split], prepared.accelerator) for split in trained.logits}
    said = prepared.result(replace(trained, model=loaded.eval(), logits=again))
    assert said.predictions == result.predictions
    read = verify.verify(tmp_path / "model", Expected.of(result.model), saved_tokenizer)
    assert "transformers loads it by AutoModelFor" in read


def test_order_is_a_permutation_of_every_epoch(make_task: Callable[..., RunConfig]) -> None:
    task = make_task(epochs=3, batch_size=4)
    lengths = np.arange(10)
    steps = batches(lengths, task)
    epochs = [np.concatenate(steps[start : start + 3]) for start in (0, 3, 6)]
    assert len(steps) == 9 and [len(rows) for rows in steps[:3]] == [4, 4, 2]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert not np.array_equal(epochs[0], epochs[1])
    assert not np.array_equal(np.concatenate(batches(lengths, replace(task, seed=2))[:3]), epochs[0])


@given(st.lists(st.integers(1, 50), min_size=1, max_size=300), st.integers(1, 9))
def test_batches_of_similar_length_hold_every_sequence_once(lengths: list[int], size: int) -> None:
    task = RunConfig(format="f", data="d", epochs=2, batch_size=size, group_by_length=True)
    steps, per_epoch = batches(np.asarray(lengths), task), -(-len(lengths) // size)
    assert len(steps) == 2 * per_epoch
    for start in (0, per_epoch):
        epoch = steps[start : start + per_epoch]
        assert sorted(np.concatenate(epoch)) == list(range(len(lengths)))
        if len(lengths) <= 50 * size:  # sorted as a whole: no two batches overlap in length
            spans = sorted((min(of), max(of)) for of in ([lengths[row] for row in rows] for rows in epoch))
            assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    assert all(np.array_equal(a, b) for a, b in zip(steps, batches(np.asarray(lengths), task), strict=True))


def test_what_does_not_fit_into_memory_is_told_with_the_remedy(
    toy: Toy,
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError

    prepared = Finetuning(make_task(epochs=1, batch_size=16), toy("single", 64), tokenizer)
    monkeypatch.setattr(BertForSequenceClassification, "forward", full)
    said = (
        r"task toy: 16 sequences \(\d+ tokens\) at once do not fit into the memory; set BERTCORE_MICRO_BATCH below 16"
    )
    with pytest.raises(TrainingError, match=said):
        prepared.run(config)
    monkeypatch.setenv("BERTCORE_MICRO_BATCH", "1")
    with pytest.raises(TrainingError, match=r"task toy: 1 sequences .* not fit into the memory; set the task's seq"):
        prepared.run(config)


def test_early_choice_gives_the_weights_of_the_epoch_that_is_best_on_what_is_kept_back(
    toy: Toy, tokenizer: Tokenizer, config: BertConfig, make_task: Callable[..., RunConfig]
) -> None:
    task = make_task(epochs=4, batch_size=16, learning_rate=1e-2, schedule="constant", warmup_ratio=0.0, dropout=0.1)
    prepared = Finetuning(task, toy("single", 64), tokenizer, several_settings=True)
    reported: list[tuple[int, float]] = []

    def report(step: int, metrics: dict[str, float]) -> None:
        reported.extend((step, value) for name, value in metrics.items() if name == "choice/accuracy")

    plain = prepared.run(config)
    early = prepared.run(config, replace(task, early_choice=True), report=report)
    scored = [(row["step"], row["choice/accuracy"]) for row in early.curves if "choice/accuracy" in row]
    assert reported == scored and [step for step, _ in scored] == [4, 8, 12, 16]
    scores = [value for _, value in scored]
    assert early.best_epoch == 1 + scores.index(max(scores))
    assert early.metrics["choice"]["accuracy"] == max(scores)
    assert plain.best_epoch is None and plain.metrics["choice"]["accuracy"] == scores[-1]
    assert "choice" not in early.predictions
    # Without warm-up and fall, as many epochs by themselves are the same run.
    alone = prepared.run(config, replace(task, epochs=early.best_epoch))
    assert torch.equal(weights(early.model), weights(alone.model))


def test_splits_are_scored_by_their_own_metrics(
    toy: Toy, tokenizer: Tokenizer, config: BertConfig, make_task: Callable[..., RunConfig]
) -> None:
    examples = toy("single", 32)
    splits = {**examples.splits, "ax": examples.splits["dev"].slice(0, 20)}
    examples = replace(examples, splits=splits, split_metrics={"ax": ["mcc"]})
    result = Finetuning(make_task(epochs=1), examples, tokenizer).run(config)
    assert result.metrics["ax"].keys() == {"mcc"} and result.metrics["dev"].keys() == {"accuracy"}


def test_evaluation_takes_smaller_batches_where_large_ones_do_not_fit(
    toy: Toy,
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared = Finetuning(make_task(epochs=1), toy("tagging", 32), tokenizer)
    trained = prepared.train(config)
    sizes: list[int] = []

    def limited(features: Any, size: int, *others: Any) -> np.ndarray:
        sizes.append(size)
        if size > 100:
            raise torch.OutOfMemoryError
        return collected(features, size, *others)

    collected = inference.collected
    monkeypatch.setattr(inference, "collected", limited)
    monkeypatch.setattr(inference, "TOKENS_AT_ONCE", {"cpu": 8192})
    features = prepared._features["dev"]
    found = inference.logits_of(trained.model, features, prepared.accelerator)
    assert sizes == [8192, 4096, 2048, 1024, 512, 256, 128, 64]
    np.testing.assert_allclose(found, trained.logits["dev"], rtol=1e-2, atol=1e-2)


def test_limited_examples_are_the_same_for_every_seed(
    toy: Toy, tokenizer: Tokenizer, make_task: Callable[..., RunConfig], config: BertConfig
) -> None:
    runs = [
        Finetuning(make_task(epochs=1, max_train_examples=20, seed=seed), toy("single"), tokenizer) for seed in (1, 2)
    ]
    assert [run.counts["train"]["examples"] for run in runs] == [20, 20]
    assert len({run.run(config).tokens for run in runs}) == 1


def test_loss_that_is_not_finite_stops_the_training(
    toy: Toy, tokenizer: Tokenizer, config: BertConfig, make_task: Callable[..., RunConfig]
) -> None:
    task = make_task(epochs=2, learning_rate=1e30, warmup_ratio=0.0)
    with pytest.raises(TrainingError, match=r"step \d+: found loss .*lower the task's learning_rate"):
        Finetuning(task, toy("single", 64), tokenizer).run(config)


def never(step: int, metrics: dict[str, float]) -> None:
    raise AssertionError(f"step {step} has been trained")


def test_what_does_not_fit_is_refused_before_training(
    toy: Toy,
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    prepared = Finetuning(make_task(), toy("single", 8), tokenizer)
    with pytest.raises(ArtifactError, match=r"encoder: vocab_size: found 50, expected at least the \d+ entries"):
        prepared.run(replace(config, vocab_size=50))
    with pytest.raises(ConfigError, match="sequence_length: found 32, expected at most the 16 positions"):
        prepared.run(replace(config, max_position_embeddings=16))
    rows = [{"text_a": text, "label": "x"} for text in "ab"]
    rowless = make_examples("classification", ["x"], ["accuracy"], train=rows, dev=[])
    choosing = Finetuning(make_task(early_choice=True), rowless, tokenizer)
    for use in (lambda: choosing.headline, lambda: choosing.train(config, report=never)):
        with pytest.raises(InputError, match="task toy: found no labelled dev example, expected some to score"):
            use()
    assert Finetuning(make_task(epochs=1), rowless, tokenizer).run(config).metrics == {}
    empty = make_examples("classification", ["x"], ["accuracy"], train=[])
    with pytest.raises(InputError, match="no labelled training example"):
        Finetuning(make_task(), empty, tokenizer)
