"""Windows that widen: which ones there are at a step, what the model makes of them, and a resume with the same bits."""

from pathlib import Path

import pytest
import torch

from bertcore.instances.sources import DrawnInstances, MaskConfig
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.encoder import EncoderModule
from bertcore.model.layout import Layout
from bertcore.model.modernbert import see
from bertcore.training import machine
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.loader import Loader
from bertcore.training.loop import Pretraining, TrainingData
from bertcore.training.windows import window
from tests.samples import token_shard, vocabulary

FIELDS = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 3, "max_position_embeddings": 48}


def model_of(local_attention: int) -> ModelConfig:
    return ModelConfig(architecture="modernbert", fields={**FIELDS, "local_attention": local_attention})


def training(directory: Path) -> Pretraining:
    config = PretrainConfig(
        model=model_of(32), objective="mlm", local_attention_start=4, batch_size=8, max_steps=12, warmup_steps=2
    )
    mask = MaskConfig(sequence_length=48, max_predictions_per_seq=8, packing="full_sentences")
    source = [DrawnInstances.of(token_shard(directory, 80), "shard", 0, mask, vocabulary())]
    torch.manual_seed(config.seed)
    model = build_pretraining(config.model.build(vocabulary().size))
    loader = Loader(lambda epoch: source, config.batch_size, config.seed)
    data, checkpoints = TrainingData(batches=loader, heldout=source), Checkpoints(directory / "checkpoints")
    return Pretraining(config, model, data, machine.make_accelerator(), checkpoints)


@pytest.mark.parametrize(
    ("first", "last", "steps", "windows"),
    [
        (16, 128, 6, [16, 16, 32, 32, 64, 64, 128, 128]),
        (16, 100, 3, [16, 32, 64, 100, 100]),
        (16, 16, 2, [16, 16, 16]),
        (16, 8, 2, [8, 8, 8]),
        (16, 128, 0, [128, 128]),
    ],
)
def test_windows_double_until_they_are_those_of_the_model(
    first: int, last: int, steps: int, windows: list[int]
) -> None:
    assert [window(first, last, step, steps) for step in range(len(windows))] == windows


def test_a_model_that_sees_less_is_one_that_was_built_so() -> None:
    torch.manual_seed(1)
    wide, narrow = (build_pretraining(model_of(size).build(60)).eval() for size in (32, 4))
    narrow.load_state_dict(wide.state_dict())
    layout = Layout.from_lengths(torch.tensor([40, 12]))
    batch = torch.randint(5, 60, (52,)), torch.zeros(52, dtype=torch.int64), layout, torch.arange(52)
    before, expected = wide(*batch)[0], narrow(*batch)[0]
    assert not torch.allclose(before, expected)
    see(wide, 4)
    assert torch.equal(wide(*batch)[0], expected) and wide.config == wide.base_model.config == narrow.config


def test_a_training_widens_them_and_is_resumed_with_the_same_bits(tmp_path: Path) -> None:
    seen: list[int] = []
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = training(tmp_path / "whole")
    whole.run(lambda step: seen.append(whole.model.config.local_attention))
    assert seen == [4, 4, 8, 8, 16, 16, *[32] * 7]
    first = training(tmp_path / "parts")
    kept: list[EncoderModule] = []

    def stop(step: int) -> None:
        if step == 3:
            first.keep()
            kept.append(first.whole_models()[""])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.run(stop)
    assert kept[0].config.local_attention == 8 and kept[0].base_model.layers[1].attention.positions.reach == 4
    second = training(tmp_path / "parts")
    second.run()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(second.model.state_dict()[name], tensor), name
