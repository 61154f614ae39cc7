"""A RoBERTa trained on texts as bytes, by its recipe's rules: it learns, and a resumed training has the same bits."""

from pathlib import Path

import pyarrow as pa
import pytest
import torch

from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.recipes.recipe import read_recipe
from bertcore.shards.build import encode_documents
from bertcore.shards.encoding import encoder_of
from bertcore.tokens.tokenizer import Vocabulary
from bertcore.training import machine
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.loader import Loader
from bertcore.training.loop import Pretraining, TrainingData
from bertcore.training.supervision import Supervision
from tests.samples import byte_tokenizer, documents

RECIPE = read_recipe("roberta")
SIZES = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 50}


class KilledError(Exception):
    """Stands for a power cut."""


def training(directory: Path, killed_after: int | None = None) -> Pretraining:
    recipe = {key: value for key, value in RECIPE["pretrain"].items() if key not in ("model", "warmup_steps")}
    steps = {"batch_size": 16, "max_steps": 24, "learning_rate": 1e-2, "logging_steps": 3, "checkpoint_steps": 7}
    config = PretrainConfig(model=ModelConfig(architecture="roberta", fields=SIZES), **{**recipe, **steps})
    mask = MaskConfig(**{**RECIPE["mask"], "sequence_length": 48})
    vocabulary, shard = (
        Vocabulary.of(byte_tokenizer()),
        encode_documents([pa.array(documents(60))], encoder_of(byte_tokenizer())),
    )
    source = [DrawnInstances.of(shard, "shard", 0, mask, vocabulary)]
    torch.manual_seed(1)
    model = build_pretraining(config.model.build(vocabulary.size, vocabulary.pad))

    def report(step: int, metrics: dict[str, float]) -> None:
        if step == killed_after:
            raise KilledError

    data = TrainingData(batches=Loader(lambda epoch: source, config.batch_size, config.seed), heldout=source)
    checkpoints, accelerator = Checkpoints(directory / "checkpoints"), machine.make_accelerator()
    return Pretraining(config, model, data, accelerator, checkpoints, Supervision(report=report))


def test_it_learns_and_resumes_with_the_same_bits(tmp_path: Path) -> None:
    whole = training(tmp_path / "whole")
    before = whole.evaluate()["eval/mlm_loss"]
    assert whole.run()["eval/mlm_loss"] < before - 0.7
    with pytest.raises(KilledError):
        training(tmp_path / "broken", killed_after=18).run()
    resumed = training(tmp_path / "broken")
    resumed.run()
    assert resumed.state.resumed_from is not None and resumed.state.resumed_from["step"] == 14
    expected = whole.model.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in resumed.model.state_dict().items())
