"""Segments that no sequence of the training has: the saved model reads them as it reads segment 0."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import save_pretrained
from bertcore.objectives.pretraining import build_objective
from bertcore.precision import device
from bertcore.training import machine
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.loader import Loader
from bertcore.training.loop import Pretraining, TrainingData
from bertcore.training.step import as_batch
from tests.samples import token_shard, vocabulary

MODEL = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 48}


def trained(
    directory: Path,
    model: EncoderModule | None = None,
    at_step: Callable[[Pretraining], object] | None = None,
    **values: object,
) -> tuple[EncoderModule, EncoderModule]:
    """The model that comes out of a few steps, and the one that went in."""
    objective = str(values.get("objective", "mlm"))
    defaults = {"batch_size": 8, "max_steps": 6, "warmup_steps": 1, "learning_rate": 5e-3, "weight_decay": 0.1}
    config = PretrainConfig(model=ModelConfig(fields=MODEL), **{"objective": objective, **defaults, **values})
    mask = MaskConfig(sequence_length=48, packing="pairs" if objective == "mlm_nsp" else "full_sentences")
    source = [DrawnInstances.of(token_shard(directory, 80), "shard", 0, mask, vocabulary())]
    torch.manual_seed(1)
    model = model or build_pretraining(config.model.build(vocabulary().size))
    before = build_pretraining(model.config)
    before.load_state_dict(model.state_dict())
    data = TrainingData(batches=Loader(lambda epoch: source, config.batch_size, config.seed), heldout=source)
    run = Pretraining(config, model, data, machine.make_accelerator(), Checkpoints(directory / "checkpoints"))
    run.run(None if at_step is None else lambda _: at_step(run))
    return run.whole_models()[""], before


def rows(model: EncoderModule) -> torch.Tensor:
    return model.get_parameter("bert.embeddings.token_type_embeddings.weight").detach().cpu().clone()


@pytest.mark.parametrize("values", [{}, {"ema_decay": 0.9}, {"optimizer": "lamb"}], ids=["weights", "average", "lamb"])
def test_every_segment_of_a_training_without_pairs_is_read_as_the_first(
    tmp_path: Path, values: dict[str, object]
) -> None:
    model, before = trained(tmp_path, **values)
    found = rows(model)
    assert torch.equal(found[0], found[1]) and not torch.equal(rows(before)[0], rows(before)[1])
    assert not torch.equal(found[0], rows(before)[0])
    mask = MaskConfig(sequence_length=48, packing="full_sentences")
    source = DrawnInstances.of(token_shard(tmp_path, 80), "shard", 0, mask, vocabulary())
    batch = as_batch(source.take(np.arange(8))).to(device())
    second = dataclasses.replace(batch, token_type_ids=torch.ones_like(batch.token_type_ids))
    objective = build_objective("mlm", model.eval())
    with torch.no_grad():
        losses = [float(objective(model, each)["mlm"].loss_sum) for each in (batch, second)]
    assert losses[0] == losses[1]


def test_a_training_whose_models_are_asked_for_on_the_way_ends_with_the_same_weights(tmp_path: Path) -> None:
    """LAMB looks at the rows of all segments: they must not be those of the copies."""
    for name in ("alone", "asked"):
        (tmp_path / name).mkdir()
    alone, _ = trained(tmp_path / "alone", optimizer="lamb")
    asked, _ = trained(tmp_path / "asked", at_step=Pretraining.whole_models, optimizer="lamb")
    found = asked.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in alone.state_dict().items())


def test_segments_of_pairs_are_left_as_they_were_trained(tmp_path: Path) -> None:
    model, _ = trained(tmp_path, objective="mlm_nsp")
    assert not torch.equal(*rows(model))


def test_a_student_keeps_what_its_teacher_knows_of_segments(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    teacher, _ = trained(tmp_path / "first", objective="mlm_nsp")
    save_pretrained(teacher, tmp_path / "teacher")
    options = {"teacher": str(tmp_path / "teacher")}
    student, _ = trained(tmp_path / "second", objective="distillation", objective_options=options)
    distance = rows(teacher)[1] - rows(teacher)[0]
    torch.testing.assert_close(rows(student)[1] - rows(student)[0], distance, rtol=0, atol=1e-7)
    assert not torch.equal(rows(student), rows(teacher))


def test_published_segments_keep_their_distance(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    published, _ = trained(tmp_path / "first", objective="mlm_nsp")
    distance = rows(published)[1] - rows(published)[0]
    adapted, before = trained(tmp_path / "second", model=published, init_from="org/bert", head_warmup_steps=0)
    found = rows(adapted)
    assert not torch.equal(found[0], rows(before)[0])
    torch.testing.assert_close(found[1] - found[0], distance, rtol=0, atol=1e-7)
