"""Multiple choice: learned where the context is needed, equal to `transformers`, whatever the numbers of choices."""

import random
from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.errors import InputError
from bertcore.evaluation.baselines import baselines
from bertcore.examples.schema import ExampleSet
from bertcore.export import verify
from bertcore.export.probe import Expected
from bertcore.finetune.config import RunConfig
from bertcore.finetune.features import IGNORED, Batch
from bertcore.finetune.inference import logits_of
from bertcore.finetune.loop import Loop
from bertcore.finetune.multiple_choice import MultipleChoice
from bertcore.finetune.run import Finetuning
from bertcore.model.bert import BertConfig
from bertcore.model.config import ARCHITECTURES
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from bertcore.model.layout import Layout
from bertcore.model.names import BERT as NAMES
from bertcore.training.metrics import silent
from tests.bertcore.model.references import LOSS_TOLERANCE, TOLERANCE, assert_close

ANIMALS = {"red": "cat", "green": "dog", "blue": "bird"}
"""What is right for each colour."""


def row(number: int) -> dict[str, Any]:
    """The colour in the context says which animal is right, of two or three: no choice is right by itself, none by its
    place, and none has a word of the context."""
    draw = random.Random(number)
    words = draw.choices(["the", "is", "table", "river"], k=3)
    colour = draw.choice(list(ANIMALS))
    words.insert(draw.randint(0, 3), colour)
    choices = draw.sample(list(ANIMALS.values()), 3)
    if draw.random() < 0.5:
        choices.remove(draw.choice([animal for animal in choices if animal != ANIMALS[colour]]))
    question = "a" if number % 2 else None
    return {
        "context": " ".join(words),
        "question": question,
        "choices": choices,
        "label": choices.index(ANIMALS[colour]),
    }


@pytest.fixture
def toy(make_examples: Callable[..., ExampleSet]) -> Callable[[int], ExampleSet]:
    def make(size: int) -> ExampleSet:
        dev = [row(number) for number in range(1000, 1064)]
        splits = {
            "train": [row(number) for number in range(size)],
            "dev": dev,
            "test": [each | {"label": None} for each in dev[:5]],
        }
        return make_examples("multiple_choice", None, ["accuracy"], **splits)

    return make


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_it_is_learned_from_the_context_and_predicts_the_same_when_saved(
    architecture: str,
    toy: Callable[[int], ExampleSet],
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    configs: dict[str, EncoderConfig],
    make_task: Callable[..., RunConfig],
    tmp_path: Path,
) -> None:
    examples = toy(256)
    prepared = Finetuning(make_task(epochs=12, batch_size=16), examples, tokenizer)
    trained = prepared.train(replace(configs[architecture], initializer_range=0.15))
    losses = [each["train/loss"] for each in trained.curves if "train/loss" in each]
    assert losses[0] > 0.6 and losses[-1] < 0.3 * losses[0]
    result = prepared.result(trained)
    assert (
        result.metrics["dev"]["accuracy"]
        >= 0.9
        > 0.6
        > max(scores["accuracy"] for scores in baselines(examples, seed=1)[1].values())
    )
    assert result.steps == 12 * 256 // 16
    assert prepared.counts["dev"]["sequences"] == sum(map(len, examples.splits["dev"]["choices"].to_pylist()))
    result.save_predictions(tmp_path / "predictions")
    lines = (tmp_path / "predictions" / "test.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction" and len(lines) == 6 and lines[1] in ("0\t0", "0\t1", "0\t2")

    result.save_model(tmp_path / "model", saved_tokenizer)
    loaded = prepared.build(load_config(tmp_path / "model"), make_task()).to(prepared.accelerator.device)
    assert load_pretrained(loaded, tmp_path / "model").missing == []
    again = {split: logits_of(loaded, prepared._features[split], prepared.accelerator) for split in trained.logits}
    said = prepared.result(replace(trained, model=loaded.eval(), logits=again))
    assert said.predictions == result.predictions
    read = verify.verify(tmp_path / "model", Expected.of(result.model), saved_tokenizer)
    assert "transformers loads it by AutoModelForMultipleChoice" in read


def test_logits_loss_and_gradients_equal_transformers(
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> None:
    """A batch of examples with two, four and three choices; `transformers` takes one example at a time."""
    rows = [
        {"context": "the red cat", "choices": ["a dog", "the river is blue"], "label": 1},
        {"context": "who", "question": "is the", "choices": ["a", "cat", "berlin", "table on the river"], "label": 0},
        {"context": "the city is on a river", "choices": ["paris", "berlin", "what"], "label": 2},
    ]
    examples = make_examples("multiple_choice", None, ["accuracy"], train=rows)
    family = MultipleChoice(make_task(), examples, tokenizer)
    torch.manual_seed(1)
    model = family.build(replace(config, initializer_range=0.2)).eval()
    save_pretrained(model, tmp_path, extra_config=family.exported(model).config)
    theirs = transformers.AutoModelForMultipleChoice.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert type(theirs).__name__ == "BertForMultipleChoice"
    model.double()
    features = family.featurize(examples.splits["train"])
    assert features.groups is not None and features.groups.tolist() == [0, 2, 6, 9]
    batch = features.batch(features.sequences(np.arange(3)))
    assert batch.count == 3
    logits = model(batch.input_ids, batch.token_type_ids, batch.layout)
    loss = family.loss(model, logits, batch)
    expected, sums = [], []
    for number, example in enumerate(rows):
        own = features.batch(features.sequences(np.asarray([number])))
        outputs = theirs(**as_transformers(own), labels=torch.tensor([example["label"]]))
        expected.append(outputs.logits[0])
        sums.append(outputs.loss)
    assert_close(logits, torch.cat(expected)[:, None], "logits", TOLERANCE)
    assert_close(loss, torch.stack(sums).sum(), "loss", LOSS_TOLERANCE)
    loss.backward()
    torch.stack(sums).sum().backward()
    found = NAMES.to_huggingface({name: each.grad for name, each in model.named_parameters() if each.grad is not None})
    references = {name: each.grad for name, each in theirs.named_parameters()}
    assert found.keys() == references.keys()
    for name, gradient in references.items():
        # Of a bias of the keys, and of the last bias, which shifts all choices alike, the true gradient is 0.
        scale = references[name.replace("key", "query").replace("classifier.bias", "classifier.weight")]
        assert_close(found[name], gradient, name, LOSS_TOLERANCE, float(scale.abs().max()))


def as_transformers(batch: Batch) -> dict[str, torch.Tensor]:
    """The sequences of a batch as the choices of one example, (1, choices, L)."""
    layout = batch.layout
    empty = torch.zeros(layout.batch_size * layout.max_length, dtype=torch.int64)
    shape = (1, layout.batch_size, layout.max_length)
    inputs = {"input_ids": batch.input_ids, "token_type_ids": batch.token_type_ids}
    padded = {name: empty.index_copy(0, layout.padded_index, each).view(shape) for name, each in inputs.items()}
    return {**padded, "attention_mask": layout.key_mask().long()[None]}


@settings(max_examples=60)
@given(st.lists(st.integers(2, 7), min_size=1, max_size=9), st.data())
def test_any_numbers_of_choices_make_one_batch(counts: list[int], data: st.DataObject) -> None:
    """The loss of a batch is the sum over its examples, each with a softmax of its own; no padding has a share."""
    labels = [data.draw(st.integers(0, count - 1)) for count in counts]
    targets = torch.full((sum(counts),), IGNORED)
    targets[torch.tensor([0, *counts[:-1]]).cumsum(0)] = torch.tensor(labels)
    logits = torch.randn(sum(counts), 1, generator=torch.Generator().manual_seed(sum(counts))).requires_grad_()
    batch = Batch(
        input_ids=torch.zeros(sum(counts), dtype=torch.int64),
        token_type_ids=torch.zeros(sum(counts), dtype=torch.int64),
        layout=Layout.from_lengths(torch.ones(sum(counts), dtype=torch.int64)),
        targets=targets,
    )
    family = MultipleChoice.__new__(MultipleChoice)  # the loss needs neither task nor tokenizer
    own: Any = None
    loss = family.loss(own, logits, batch)
    parts = logits.squeeze(1).split(counts)
    expected = sum(-part.log_softmax(0)[label] for part, label in zip(parts, labels, strict=True))
    assert batch.count == len(counts)
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, logits)
    wanted = torch.cat([part.softmax(0) for part in parts]) - torch.cat(
        [torch.eye(count)[label] for count, label in zip(counts, labels, strict=True)]
    )
    torch.testing.assert_close(gradient.squeeze(1), wanted)
    assert float(family.soft_loss(logits.detach(), logits.detach(), batch, 2.0)) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("micro_batch", "among"), [(None, [7]), ("1000", [7]), ("7", range(14, 22)), ("1", [33])], ids=str
)
def test_no_example_is_divided_and_each_is_learned_once_an_epoch(
    micro_batch: str | None,
    among: Container[int],
    toy: Callable[[int], ExampleSet],
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if micro_batch is not None:
        monkeypatch.setenv("BERTCORE_MICRO_BATCH", micro_batch)
    prepared = Finetuning(make_task(epochs=1, batch_size=5, group_by_length=True), toy(33), tokenizer)
    features = prepared._features["train"]
    assert features.groups is not None
    lengths = [int(features.lengths[a:b].sum()) for a, b in zip(features.groups[:-1], features.groups[1:], strict=True)]
    assert features.group_lengths.tolist() == lengths
    model = prepared.build(config, prepared._task)
    loop = Loop(model, prepared._task, prepared._family, features, prepared.accelerator, silent)
    parts = [part for rows in loop._batches for part in loop._micro_batches(rows)]
    assert sorted(np.concatenate(parts)) == list(range(len(features)))
    for part in parts:
        first = part[np.flatnonzero(np.isin(part, features.groups))]
        examples = np.searchsorted(features.groups, first)
        assert part.tolist() == features.sequences(examples).tolist()
    assert len(parts) in among


def test_advice_counts_the_steps_that_are_made(
    toy: Callable[[int], ExampleSet],
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    prepared = Finetuning(make_task(epochs=1, batch_size=5), toy(33), tokenizer)
    save_pretrained(prepared.build(config, prepared._task), tmp_path / "model")
    prepared.advise(tmp_path / "model", prepared._task)
    assert "7 optimizer steps in all" in caplog.text


def test_same_seed_gives_the_same_bits_and_micro_batches_change_nothing_but_rounding(
    toy: Callable[[int], ExampleSet],
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = make_task(epochs=1)
    prepared = Finetuning(task, toy(64), tokenizer)
    dropping = replace(task, dropout=0.1)
    first, other, again = (prepared.run(config, replace(dropping, seed=seed)) for seed in (7, 8, 7))
    assert torch.equal(weights(first.model), weights(again.model)) and first.curves == again.curves
    assert not torch.equal(weights(first.model), weights(other.model))
    whole = prepared.run(config)
    monkeypatch.setenv("BERTCORE_MICRO_BATCH", "5")
    parts = prepared.run(config)
    torch.testing.assert_close(weights(parts.model), weights(whole.model), atol=1e-4, rtol=1e-3)
    assert parts.curves[0]["train/loss"] == pytest.approx(whole.curves[0]["train/loss"], rel=1e-5)


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_what_is_cut_is_counted_and_the_choice_is_kept(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    rows = [{"context": "the cat is on the table " * 9, "choices": ["red", "blue city"], "label": None}]
    examples = make_examples("multiple_choice", None, ["accuracy"], train=rows)
    # Windows are for classification: each choice is one sequence.
    family = MultipleChoice(make_task(long_texts="windows"), examples, tokenizer)
    features = family.featurize(examples.splits["train"])
    assert features.targets is None and features.counts == {"choices_cut": 2} and features.lengths.tolist() == [32, 32]
    ends = [tokenizer.decode(features.tokens[start:end].tolist()) for start, end in ((28, 31), (61, 63))]
    assert [each.split()[-1] for each in ends] == ["red", "city"] and ends[1] == "blue city"


@pytest.mark.parametrize(("choices", "label"), [(["a", "b"], 2), (["a", "b"], -1), (["a"], 0), ([], 0)])
def test_a_label_that_is_no_place_is_named_with_its_example(
    choices: list[str],
    label: int,
    tokenizer: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
) -> None:
    rows = [row(1), {"context": "x", "choices": choices, "label": label}]
    examples = make_examples("multiple_choice", None, ["accuracy"], train=rows)
    message = f"example 1: found the label {label} of {len(choices)} choices, expected two or more choices, and a label"
    with pytest.raises(InputError, match=message):
        MultipleChoice(make_task(), examples, tokenizer).featurize(examples.splits["train"])
