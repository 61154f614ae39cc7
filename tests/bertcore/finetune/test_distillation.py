"""A teacher's logits as targets: the losses in closed form, a student that comes near to its teacher, and refusals."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional

from bertcore.errors import ArtifactError, ConfigError
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import DistillationConfig, RunConfig
from bertcore.finetune.inference import logits_of
from bertcore.finetune.kl_divergence import class_divergence, yes_no_divergence
from bertcore.finetune.run import Finetuning
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import label_names

COLOURS = ("red", "green", "blue")


@settings(max_examples=40)
@given(rows=st.integers(1, 9), classes=st.integers(2, 7), temperature=st.floats(0.5, 6.0), seed=st.integers(0, 10**6))
def test_divergences_are_those_of_torch(rows: int, classes: int, temperature: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    own, theirs = (3 * torch.randn(rows, classes, generator=generator) for _ in range(2))
    own.requires_grad_()
    p, q = (theirs / temperature).softmax(1), (own / temperature).log_softmax(1)
    expected = nn.KLDivLoss(reduction="sum")(q, p) * temperature**2
    found = class_divergence(own, theirs, temperature)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    (gradient,) = torch.autograd.grad(found, own)
    torch.testing.assert_close(gradient, temperature * (q.exp() - p).detach(), rtol=1e-4, atol=1e-4)
    # A yes or no is a choice between two classes, of which one has logit 0.
    pairs = [torch.stack([each, torch.zeros_like(each)], -1).flatten(0, 1) for each in (own, theirs)]
    torch.testing.assert_close(
        yes_no_divergence(own, theirs, temperature), class_divergence(*pairs, temperature), rtol=1e-4, atol=1e-3
    )


def test_places_behind_a_text_add_nothing_and_get_no_gradient() -> None:
    own = torch.tensor([[1.0, -1.0, -torch.inf], [0.5, 0.2, 0.1]], requires_grad=True)
    theirs = torch.tensor([[2.0, -1.0, -torch.inf], [0.5, 0.2, 0.1]])
    found = class_divergence(own, theirs, 2.0)
    found.backward()
    torch.testing.assert_close(found, class_divergence(own[:1, :2], theirs[:1, :2], 2.0))
    assert own.grad is not None and not own.grad[0, 2] and own.grad[0, 0] < -0.1
    torch.testing.assert_close(own.grad[1], torch.zeros(3), rtol=0, atol=1e-6)


def toy(name: str, make_examples: Callable[..., ExampleSet], rows: int = 48) -> ExampleSet:
    """Colours of cats, learnable from one word."""
    texts = [f"the {COLOURS[n % 3]} cat is on the table" for n in range(rows)]
    words = [text.split() for text in texts]
    tags = [["B-C" if word in COLOURS else "O" for word in row] for row in words]
    found: dict[str, tuple[str, list[str] | None, str, list[dict[str, Any]]]] = {
        "classification": (
            "classification",
            list(COLOURS),
            "accuracy",
            [{"text_a": t, "label": COLOURS[n % 3]} for n, t in enumerate(texts)],
        ),
        "regression": ("classification", None, "pearson", [{"text_a": t, "label": n % 3} for n, t in enumerate(texts)]),
        "multi_label": (
            "multi_label",
            list(COLOURS),
            "micro_f1",
            [{"text_a": t, "labels": [COLOURS[n % 3]]} for n, t in enumerate(texts)],
        ),
        "tagging": ("tagging", ["B-C", "O"], "f1", [{"words": w, "tags": t} for w, t in zip(words, tags, strict=True)]),
        "question_answering": (
            "question_answering",
            None,
            "f1",
            [
                {"question": "what colour?", "context": t, "answers": [{"text": COLOURS[n % 3], "answer_start": 4}]}
                for n, t in enumerate(texts)
            ],
        ),
        "multiple_choice": (
            "multiple_choice",
            None,
            "accuracy",
            [
                {"context": "the cat is on the table", "choices": list(COLOURS[: 2 + n % 2]), "label": n % 2}
                for n in range(rows)
            ],
        ),
    }
    family, labels, metric, examples = found[name]
    return make_examples(family, labels, [metric], train=examples, dev=examples[:12])


@pytest.mark.parametrize(
    "name", ["classification", "regression", "multi_label", "tagging", "question_answering", "multiple_choice"]
)
def test_a_student_comes_near_to_its_teacher(
    name: str,
    make_examples: Callable[..., ExampleSet],
    make_task: Callable[..., RunConfig],
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    configs: dict[str, EncoderConfig],
    tmp_path: Path,
) -> None:
    """With alpha 1 the labels are not read: what the student learns, it has from the teacher's logits alone."""
    examples, task = toy(name, make_examples), make_task(epochs=10, batch_size=8)
    Finetuning(task, examples, tokenizer).run(configs["bert"]).save_model(tmp_path / "teacher", saved_tokenizer)
    taught = replace(task, distillation=DistillationConfig(teacher=str(tmp_path / "teacher"), alpha=1.0))
    prepared = Finetuning(taught, examples, tokenizer)
    student = replace(configs["distilbert"], num_hidden_layers=1)
    trained = prepared.train(student)
    assert prepared.teacher is not None
    expected = logits_of(prepared.teacher, prepared._features["dev"], prepared.accelerator)
    torch.manual_seed(task.seed)
    on_device = prepared.build(student, task).to(prepared.accelerator.device)
    untrained = logits_of(on_device, prepared._features["dev"], prepared.accelerator)
    assert np.abs(trained.logits["dev"] - expected).mean() < 0.6 * np.abs(untrained - expected).mean()
    # And beside the labels: both terms, in their shares.
    features = prepared._features["train"]
    batch = features.sequences(np.arange(5))
    part = features.batch(batch)
    model = prepared.build(student, task).eval()
    logits = model(part.input_ids, part.token_type_ids, part.layout).detach()
    soft = prepared._teacher_logits[features.places(batch, len(prepared._teacher_logits))]  # type: ignore[index, arg-type]
    family = prepared._family
    terms = family.loss(model, logits, part), family.soft_loss(logits, torch.from_numpy(soft), part, 2.0)
    assert float(family.soft_loss(logits, logits, part, 2.0)) == pytest.approx(0.0, abs=1e-4)
    assert all(float(term) > 0 for term in terms)


def test_the_loss_has_both_terms_in_their_shares(
    make_examples: Callable[..., ExampleSet],
    make_task: Callable[..., RunConfig],
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    configs: dict[str, EncoderConfig],
    tmp_path: Path,
) -> None:
    """One step over all rows at once: its loss is the mean of both terms, weighted, for any micro-batch."""
    examples, task = toy("classification", make_examples), make_task(epochs=1, batch_size=48)
    Finetuning(task, examples, tokenizer).run(configs["bert"]).save_model(tmp_path / "teacher", saved_tokenizer)
    distillation = DistillationConfig(teacher=str(tmp_path / "teacher"), alpha=0.3, temperature=3.0)
    prepared = Finetuning(replace(task, distillation=distillation), examples, tokenizer)
    found = prepared.train(configs["bert"]).curves[0]["train/loss"]
    torch.manual_seed(task.seed)
    model, features = prepared.build(configs["bert"], task), prepared._features["train"]
    part = features.batch(np.arange(48))
    logits = model(part.input_ids, part.token_type_ids, part.layout).float()
    assert prepared._teacher_logits is not None and part.targets is not None
    theirs = torch.from_numpy(prepared._teacher_logits)
    hard = functional.cross_entropy(logits, part.targets)
    soft = nn.KLDivLoss(reduction="batchmean")((logits / 3).log_softmax(1), (theirs / 3).softmax(1)) * 9
    assert found == pytest.approx(
        float((0.7 * hard + 0.3 * soft).detach()), rel=2e-2
    )  # the training may compute in bfloat16


def test_a_teacher_of_another_task_is_refused(
    make_examples: Callable[..., ExampleSet],
    make_task: Callable[..., RunConfig],
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    configs: dict[str, EncoderConfig],
    tmp_path: Path,
) -> None:
    task = make_task(epochs=1)
    examples = toy("classification", make_examples)
    Finetuning(task, examples, tokenizer).run(configs["bert"]).save_model(tmp_path / "teacher", saved_tokenizer)
    taught = replace(task, distillation=DistillationConfig(teacher=str(tmp_path / "teacher")))
    with pytest.raises(ArtifactError, match=r"found \['BertForSequenceClassification'\], expected 'BertForTok"):
        Finetuning(taught, toy("tagging", make_examples), tokenizer)
    others = replace(examples, labels=["blue", "green", "red"])
    with pytest.raises(ArtifactError, match=r"label2id: found .*'red': 0.*, expected .*'blue': 0.* as the"):
        Finetuning(taught, others, tokenizer)
    with pytest.raises(ArtifactError, match=r"label2id: found .*, expected {'score': 0}"):
        Finetuning(taught, toy("regression", make_examples), tokenizer)
    entries = (tmp_path / "teacher" / "vocab.txt").read_text().split("\n")
    (tmp_path / "teacher" / "tokenizer.json").unlink()
    for changed, message in (
        (
            [*entries[:7], entries[8], entries[7], *entries[9:]],
            r"teacher: found .* as entry 7, expected .* as in the student's",
        ),
        (entries[:9], r"teacher: found 9 entries in its tokenizer and a vocab_size of .*student's tokenizer"),
    ):
        (tmp_path / "teacher" / "vocab.txt").write_text("\n".join(changed))
        with pytest.raises(ArtifactError, match=message):
            Finetuning(taught, examples, tokenizer)


def test_a_number_has_whatever_name_its_teacher_gives_it(
    make_examples: Callable[..., ExampleSet],
    make_task: Callable[..., RunConfig],
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    configs: dict[str, EncoderConfig],
    tmp_path: Path,
) -> None:
    """`transformers` calls it LABEL_0. What reads the teacher's texts may have tokens of its own behind the others."""
    examples, teacher = toy("regression", make_examples), tmp_path / "teacher"
    config = replace(configs["bert"], vocab_size=tokenizer.get_vocab_size() + 1)
    Finetuning(make_task(epochs=1), examples, tokenizer).run(config).save_model(teacher, saved_tokenizer)
    values = json.loads((teacher / "config.json").read_text())
    (teacher / "config.json").write_text(json.dumps(values | label_names(["LABEL_0"])))
    whole = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    whole.add_tokens(["<e1>"])
    whole.save(str(teacher / "tokenizer.json"))
    taught = make_task(epochs=1, distillation=DistillationConfig(teacher=str(teacher)))
    for student in (tokenizer, whole):
        assert Finetuning(taught, examples, student).teacher is not None
    (teacher / "config.json").write_text(json.dumps(values | label_names(["no", "yes"])))
    with pytest.raises(ArtifactError, match="label2id: found {'no': 0, 'yes': 1}, expected {'score': 0}"):
        Finetuning(taught, examples, tokenizer)


def test_a_teacher_with_a_chain_is_refused(
    make_examples: Callable[..., ExampleSet],
    make_task: Callable[..., RunConfig],
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    configs: dict[str, EncoderConfig],
    tmp_path: Path,
) -> None:
    task, examples = make_task(epochs=1), toy("tagging", make_examples)
    teacher = Finetuning(make_task(epochs=1, crf=True), examples, tokenizer).run(configs["bert"])
    teacher.save_model(tmp_path / "teacher", saved_tokenizer)
    taught = replace(task, distillation=DistillationConfig(teacher=str(tmp_path / "teacher")))
    with pytest.raises(ArtifactError, match="teacher/config.json: crf: found a model whose tags a chain chooses"):
        Finetuning(taught, examples, tokenizer)


def test_an_encoder_of_one_segment_reads_no_pairs(
    make_examples: Callable[..., ExampleSet],
    make_task: Callable[..., RunConfig],
    tokenizer: Tokenizer,
    configs: dict[str, EncoderConfig],
) -> None:
    rows = [{"text_a": "cat", "text_b": "sat", "label": label} for label in ("x", "y")]
    examples = make_examples("classification", ["x", "y"], ["accuracy"], train=rows, dev=rows)
    prepared = Finetuning(make_task(), examples, tokenizer)
    with pytest.raises(ConfigError, match="^encoder: type_vocab_size: found 1, expected 2 for examples that are pairs"):
        prepared.run(replace(configs["bert"], type_vocab_size=1))


@pytest.mark.parametrize("values", [{"alpha": 0.0}, {"alpha": 1.1}, {"temperature": 0.0}])
def test_impossible_values_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(values))}: found"):
        DistillationConfig(teacher="t", **values)


def test_a_chain_has_no_teacher(make_task: Callable[..., RunConfig]) -> None:
    with pytest.raises(ValueError, match="distillation: found a teacher with crf"):
        make_task(crf=True, distillation=DistillationConfig(teacher="t"))
