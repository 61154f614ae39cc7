"""Distillation against the published loss in torch's own functions, in double precision; what a student begins with."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from bertcore.errors import ArtifactError
from bertcore.instances.sources import MaskConfig
from bertcore.model.albert import AlbertConfig
from bertcore.model.bert import BertConfig, BertForPreTraining, BertModel
from bertcore.model.config import ModelConfig, build_discriminator, build_pretraining
from bertcore.model.distilbert import DistilBertConfig
from bertcore.model.huggingface import save_pretrained
from bertcore.model.modernbert_config import ModernBertConfig
from bertcore.objectives.distillation import DistillationOptions, check
from bertcore.objectives.kl_divergence import kl_divergence
from bertcore.objectives.pretraining import build_objective
from bertcore.training.config import PretrainConfig
from bertcore.training.flops import forward_flops, training_flops
from bertcore.training.loop import Pretraining
from tests.bertcore.model.references import LOSS_TOLERANCE, assert_close, random_batch
from tests.samples import vocabulary
from tests.small import FIELDS, assert_resumes, small_training

SIZES: dict[str, Any] = {"vocab_size": 90, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
TEACHER = BertConfig(num_hidden_layers=4, initializer_range=0.3, **SIZES)
STUDENT = DistilBertConfig(num_hidden_layers=2, dropout=0.0, attention_dropout=0.0, **SIZES)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(2)
    directory = tmp_path_factory.mktemp("teacher") / "model"
    save_pretrained(BertForPreTraining(TEACHER), directory)
    return directory


def published_loss(student: Any, teacher: Any, batch: Any, options: DistillationOptions) -> dict[str, Tensor]:
    """The terms as means, as huggingface/transformers' research project `distillation` computes them."""
    inputs = batch.input_ids, batch.token_type_ids, batch.layout
    own, other = (model.base_model.hidden_states(*inputs) for model in (student, teacher))
    own_logits, other_logits = student.token_logits(own), teacher.token_logits(other)
    places = slice(None) if options.positions == "all" else batch.masked_positions
    temperature = options.temperature
    kl = nn.KLDivLoss(reduction="batchmean")(
        functional.log_softmax(own_logits[places] / temperature, dim=-1),
        functional.softmax(other_logits[places] / temperature, dim=-1),
    )
    return {
        "kl": kl * temperature**2,
        "mlm": functional.cross_entropy(own_logits[batch.masked_positions], batch.masked_labels),
        "cosine": nn.CosineEmbeddingLoss()(own, other, torch.ones(len(own))),
    }


@pytest.mark.parametrize(
    "given_options",
    [
        {},
        {"temperature": 3.0, "positions": "masked"},
        {"positions": "masked", "cosine_weight": 0.0},
        {"mlm_weight": 0.0},
        {"kl_weight": 0.0},
    ],
    ids=str,
)
def test_loss_and_gradients_are_those_of_the_published_code(given_options: dict[str, Any], teacher: Path) -> None:
    options = DistillationOptions(teacher=str(teacher), layers=[], **given_options)
    torch.manual_seed(5)
    student = build_pretraining(STUDENT).double()
    with torch.no_grad():
        for parameter in student.parameters():
            parameter += 0.2 * torch.randn(parameter.shape)
    objective = build_objective("distillation", student, {"teacher": str(teacher), "layers": [], **given_options})
    other: Any = objective._teacher[0].double()
    batch = random_batch(STUDENT, [21, 40, 5])
    expected = published_loss(student, other, batch, options)
    total = sum(objective.weights[term] * expected[term] for term in objective.weights)
    total.backward()
    gradients = {name: parameter.grad for name, parameter in student.named_parameters()}
    student.zero_grad()
    found = objective(student, batch)
    assert {term: sums.count for term, sums in found.items()} == objective.counts(batch)
    assert "mlm" in found  # also with a weight of 0: the report, the registry and the comparison ask for it
    for term, sums in found.items():
        assert_close(sums.loss_sum / sums.count, expected[term], term, LOSS_TOLERANCE)
    sum(objective.weights[term] * sums.loss_sum / sums.count for term, sums in found.items()).backward()
    for name, parameter in student.named_parameters():
        scale = float(gradients[name.replace("bias", "weight")].abs().max()) if name.endswith("qkv.bias") else None
        assert_close(parameter.grad, gradients[name], name, LOSS_TOLERANCE, scale)
    assert all(parameter.grad is None for parameter in other.parameters())


@settings(max_examples=40)
@given(
    rows=st.integers(0, 150),
    filling=st.integers(0, 9),
    entries=st.integers(2, 40),
    temperature=st.floats(0.3, 8.0),
    factor=st.floats(-3.0, 3.0),
    seed=st.integers(0, 10**6),
)
def test_divergence_is_the_closed_form(
    rows: int, filling: int, entries: int, temperature: float, factor: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    student, expected = ((torch.randn(rows, entries, generator=generator, dtype=torch.float64) * 4) for _ in range(2))
    student.requires_grad_()
    behind = torch.ones(filling, entries, dtype=torch.float64, requires_grad=True)
    loss, same = kl_divergence(torch.cat([student, behind]), lambda states: states, expected, temperature)
    (factor * loss).backward()
    assert behind.grad is not None and not behind.grad.any()
    p, q = ((each.detach() / temperature).softmax(1) for each in (expected, student))
    torch.testing.assert_close(loss.detach(), (p * (p / q).log()).sum() * temperature**2)
    torch.testing.assert_close(student.grad, factor * temperature * (q - p))
    assert int(same) == int((expected.argmax(1) == student.argmax(1)).sum())


def test_autocast_does_not_round_the_divergence() -> None:
    generator = torch.Generator().manual_seed(1)
    student, expected = (torch.randn(64, 300, generator=generator) * 4 for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = kl_divergence(student.clone(), lambda states: states, expected, 2.0)
    p, q = ((each.double() / 2).softmax(1) for each in (expected, student))
    assert float(loss) == pytest.approx(float((p * (p / q).log()).sum() * 4), rel=1e-5)


def test_a_student_that_is_its_teacher_has_nothing_to_learn() -> None:
    logits = torch.randn(70, 12, requires_grad=True)
    loss, same = kl_divergence(logits * 1.0, lambda states: states, logits.detach(), 2.0)
    loss.backward()
    assert float(loss.detach()) == 0.0 and int(same) == 70 and logits.grad is not None and not logits.grad.any()


def test_the_teacher_is_in_no_checkpoint_and_stays_as_it_is(teacher: Path) -> None:
    student = build_pretraining(STUDENT)
    objective = build_objective("distillation", student, {"teacher": str(teacher)})
    before = {name: each.clone() for name, each in objective._teacher[0].state_dict().items()}  # type: ignore[attr-defined]
    objective.train()
    assert not list(objective.parameters()) and not objective.state_dict()
    assert not objective._teacher[0].training  # type: ignore[attr-defined]
    batch = random_batch(STUDENT, [9, 30])
    sum(sums.loss_sum for sums in objective(student, batch).values()).backward()
    assert all(torch.equal(each, before[name]) for name, each in objective._teacher[0].state_dict().items())  # type: ignore[attr-defined]


@pytest.mark.parametrize("entries", [SIZES["vocab_size"], 84])
@pytest.mark.parametrize(("layers", "expected"), [(None, [0, 2]), ([3, 1], [3, 1])])
def test_a_student_begins_with_layers_embeddings_and_head_of_its_teacher(
    layers: list[int] | None, expected: list[int], entries: int, teacher: Path
) -> None:
    student = build_pretraining(replace(STUDENT, vocab_size=entries))
    objective = build_objective("distillation", student, {"teacher": str(teacher), "layers": layers})
    other: Any = objective._teacher[0]
    for own, index in zip(student.base_model.layers, expected, strict=True):
        theirs = other.base_model.layers[index].state_dict()
        assert all(torch.equal(each, theirs[name]) for name, each in own.state_dict().items())
    copied = {
        "distilbert.embeddings.word_embeddings.weight": other.bert.embeddings.word_embeddings.weight,
        "distilbert.embeddings.position_embeddings.weight": other.bert.embeddings.position_embeddings.weight,
        "distilbert.embeddings.LayerNorm.weight": other.bert.embeddings.LayerNorm.weight,
        "predictions.transform.dense.weight": other.cls["predictions"].transform["dense"].weight,
        "predictions.bias": other.cls["predictions"].bias,
    }
    for name, tensor in copied.items():
        found = student.state_dict()[name]
        assert torch.equal(found, tensor[: len(found)]), name


def test_a_modernbert_begins_with_layers_of_one(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {**SIZES, "num_hidden_layers": 4}
    torch.manual_seed(1)
    large = build_pretraining(ModernBertConfig(**sizes))
    save_pretrained(large, tmp_path / "teacher")
    student = build_pretraining(ModernBertConfig(**{**sizes, "num_hidden_layers": 2}))
    build_objective("distillation", student, {"teacher": str(tmp_path / "teacher")})
    theirs = large.state_dict()
    for name, tensor in student.state_dict().items():
        assert torch.equal(tensor, theirs[name.replace("layer.1.", "layer.2.")]), name


@pytest.mark.parametrize("architecture", ["albert", "electra"])
def test_teachers_of_other_architectures_teach(architecture: str, tmp_path: Path) -> None:
    """One whose layers are shared, and a generator; a discriminator has no head for masked tokens."""
    fields = {**SIZES, "num_hidden_layers": 4, "embedding_size": 24}
    config = ModelConfig(
        architecture=architecture, fields={name: value for name, value in fields.items() if name != "vocab_size"}
    ).build(SIZES["vocab_size"])
    teacher = build_pretraining(config)
    save_pretrained(teacher, tmp_path / "teacher")
    student, options = build_pretraining(STUDENT), DistillationOptions(teacher=str(tmp_path / "teacher"))
    check(STUDENT, options, 64)
    objective = build_objective("distillation", student, {"teacher": str(tmp_path / "teacher")})
    theirs = teacher.base_model.layers[2].state_dict()
    assert all(torch.equal(each, theirs[name]) for name, each in student.base_model.layers[1].state_dict().items())
    batch = random_batch(STUDENT, [21, 5])
    expected = published_loss(student, teacher.eval(), batch, options)
    for term, sums in objective(student.eval(), batch).items():
        torch.testing.assert_close(sums.loss_sum / sums.count, expected[term], rtol=1e-4, atol=1e-4)
    if architecture == "electra":
        save_pretrained(build_discriminator(config), tmp_path / "discriminator")
        with pytest.raises(ArtifactError, match="discriminator: found no tensor for 'generator_.*, expected the head"):
            check(STUDENT, DistillationOptions(teacher=str(tmp_path / "discriminator")), 64)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (STUDENT, {"teacher": None}, r"teacher: found nothing \(null\), expected the directory.*cp -rL"),
        (
            DistilBertConfig(**{**SIZES, "num_hidden_layers": 2, "hidden_size": 64}),
            {},
            "cosine_weight: found 1.0 with hidden_size 64, but the teacher's is 32; set it to 0 and layers",
        ),
        (
            DistilBertConfig(**{**SIZES, "num_hidden_layers": 2, "hidden_size": 64}),
            {"cosine_weight": 0.0},
            r"layers: found 0 for layer 0, whose attention.output.bias has shape \(64,\), but the teacher's \(32,\)",
        ),
        (
            AlbertConfig(num_hidden_layers=2, embedding_size=24, **SIZES),
            {"layers": [1, 2]},
            r"layers: found 1 and 2 for layers of the model that share their weights, .* such as \[1, 1\]; or set",
        ),
        (STUDENT, {"layers": [0, 4]}, "layers: found 4, expected layers of the teacher, 0 to 3; correct it"),
        (STUDENT, {"layers": [0]}, "layers: found 1 of them, expected one for each of the 2 layers"),
        (DistilBertConfig(**{**SIZES, "vocab_size": 91}), {}, "teacher: found a model with vocab_size 90, expected at"),
        (
            ModernBertConfig(num_hidden_layers=2, **SIZES),
            {},
            "layers: found 0 for layer 0, whose attention.output.bias has shape None",
        ),
    ],
)
def test_what_cannot_go_together_is_named(config: Any, options: dict[str, Any], message: str, teacher: Path) -> None:
    with pytest.raises(ValueError, match=message):
        check(config, DistillationOptions(**{"teacher": str(teacher), **options}), 64)
    check(STUDENT, DistillationOptions(teacher=str(teacher)), 64)
    with pytest.raises(ValueError, match=r"found a model of 512 positions, expected at least .* \(513\)"):
        check(STUDENT, DistillationOptions(teacher=str(teacher)), 513)


def test_a_teacher_without_a_head_for_masked_tokens_is_refused(tmp_path: Path) -> None:
    save_pretrained(BertModel(TEACHER), tmp_path / "encoder")
    with pytest.raises(ArtifactError, match=r"encoder: found no tensor for 'cls.predictions.bias', expected the head"):
        check(STUDENT, DistillationOptions(teacher=str(tmp_path / "encoder")), 64)


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 0.0},
        {"mlm_weight": -1.0},
        {"kl_weight": 0.0, "cosine_weight": 0},
        {"mlm_weight": 0.0, "kl_weight": 0.0},
    ],
)
def test_impossible_options_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(values))}: found"):
        DistillationOptions(**values)


@pytest.mark.parametrize("options", [{}, {"positions": "masked", "cosine_weight": 0.0}], ids=str)
def test_flops_count_the_teachers_forward_pass(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertcore.model.layout.GROUP_AREA", 1)  # every sequence by itself: nothing is padded
    monkeypatch.setattr("bertcore.model.layout.rounded_up", lambda number: number)  # nor filled up for the CPU
    save_pretrained(build_pretraining(ModelConfig(preset="tiny").build(500)), tmp_path)
    config = ModelConfig(architecture="distilbert", preset="tiny").build(500)
    model = build_pretraining(config).train()
    objective = build_objective("distillation", model, {"teacher": str(tmp_path), **options})
    batch = random_batch(config, [17, 64, 39])
    with FlopCounterMode(display=False) as counter:
        sum(part.loss_sum for part in objective(model, batch).values()).backward()
    assert training_flops(config, batch, objective) == pytest.approx(counter.get_total_flops(), rel=0.01)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        objective(model, batch)
    assert forward_flops(config, batch, objective) == pytest.approx(counter.get_total_flops(), rel=0.01)


def training(directory: Path, teacher: Path) -> Pretraining:
    """Of a student with dropout, whose teacher lies in `teacher`."""
    settings = PretrainConfig(
        model=ModelConfig(architecture="distilbert", fields=FIELDS),
        objective="distillation",
        objective_options={"teacher": str(teacher)},
        **{"batch_size": 8, "max_steps": 10, "warmup_steps": 2, "learning_rate": 5e-3, "eval_steps": 5},  # type: ignore[arg-type]
    )
    return small_training(directory, settings, MaskConfig(sequence_length=48))


def save_teacher(directory: Path) -> Path:
    torch.manual_seed(9)
    sizes = {**SIZES, "vocab_size": vocabulary().size, "intermediate_size": 128, "max_position_embeddings": 48}
    config = BertConfig(**sizes, num_hidden_layers=2)
    save_pretrained(BertForPreTraining(config), directory / "teacher")
    return directory / "teacher"


def test_a_resumed_distillation_has_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
    teacher = save_teacher(tmp_path)
    whole = training(tmp_path / "whole", teacher)
    before, after = whole.evaluate(), whole.run()
    assert after["eval/loss"] < before["eval/loss"]
    assert {"eval/kl_loss", "eval/kl_accuracy", "eval/mlm_accuracy", "eval/cosine_loss"} <= after.keys()
    assert "eval/cosine_accuracy" not in after
    resumed = assert_resumes(partial(training, tmp_path / "stopped", teacher), whole, after=4)
    assert resumed.state.history.curves == whole.state.history.curves
