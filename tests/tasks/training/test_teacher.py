"""A distillation as the stage starts it: the teacher is read where DVC watches it, its content names the training."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertcore.errors import ArtifactError
from bertcore.instances.config import MaskConfig
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import WEIGHTS, save_pretrained
from bertcore.training import machine
from bertcore.training.config import PretrainConfig
from bertcore.training.supervision import Supervision
from tasks import params as task_params
from tasks.training.naming import TrainingNames
from tasks.training.process import build
from tests.faults.trainings import params, prepare
from tests.samples import tokenizer

TEACHER = Path("data/inputs/objective/teacher")
SIZES: dict[str, Any] = {"hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": 64}


@pytest.fixture
def tree(no_accelerator: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In which a student of one layer can be trained, whose teacher has two."""
    values = params()
    values["mask"] |= {"packing": "full_sentences", "sequence_length": 48}
    values["pretrain"] = {
        "model": {"architecture": "distilbert", "num_hidden_layers": 1, **SIZES},
        "objective": "distillation",
        "objective_options": {"teacher": "elsewhere/teacher"},
        **{"batch_size": 4, "max_steps": 4, "warmup_steps": 1, "eval_sequences": 8},
    }
    monkeypatch.chdir(prepare(tmp_path / "tree", values))
    torch.manual_seed(1)
    shape = ModelConfig(fields={**SIZES, "num_hidden_layers": 2}).build(tokenizer().get_vocab_size())
    save_pretrained(build_pretraining(shape), TEACHER, Path("models/tokenizer"))
    return tmp_path / "tree"


def name_of_checkpoints() -> str:
    config, mask = task_params.section("pretrain", PretrainConfig), task_params.section("mask", MaskConfig)
    return TrainingNames(config, mask).checkpoints.directory.name


def test_it_is_read_where_it_was_linked_and_another_one_is_another_training(tree: Path) -> None:
    training = build(machine.make_accelerator(), Supervision())
    directory = training.checkpoints.directory
    assert training.train_step() > 0
    assert directory.name == name_of_checkpoints()
    tensors = load_file(TEACHER / WEIGHTS)
    tensors["cls.predictions.bias"] += 1.0
    save_file(tensors, TEACHER / WEIGHTS, metadata={"format": "pt"})
    assert name_of_checkpoints() != directory.name


def test_one_of_another_vocabulary_is_refused_before_a_step(tree: Path) -> None:
    entries = (TEACHER / "vocab.txt").read_text().split("\n")
    entries[8:10] = entries[9:7:-1]
    (TEACHER / "vocab.txt").write_text("\n".join(entries))
    said = r"pretrain.objective_options.teacher: elsewhere/teacher: found '.*' as entry 8, expected '.*' as in models"
    with pytest.raises(ArtifactError, match=said):
        build(machine.make_accelerator(), Supervision())
