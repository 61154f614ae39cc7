"""What is registered from outside of the package trains, resumes, is saved and fine-tuned by its head like the rest."""

from pathlib import Path

import pytest
import torch

from bertcore.instances.sources import DrawnInstances, MaskConfig
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_head, build_pretraining
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from bertcore.model.layout import Layout
from bertcore.objectives.pretraining import OBJECTIVES
from bertcore.training import distributed
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.loader import Loader
from bertcore.training.loop import Pretraining, TrainingData
from tests.outside.toy_architecture import TOY
from tests.outside.toy_objective import TWINS
from tests.samples import token_shard, vocabulary


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARCHITECTURES, "toy", TOY)
    monkeypatch.setitem(OBJECTIVES, "twins", TWINS)


def training(directory: Path, shard_of: Path) -> Pretraining:
    settings = PretrainConfig(
        model=ModelConfig(architecture="toy", fields={"initializer_range": 0.2}),
        **{"objective": "twins", "objective_options": {"twin_weight": 0.25}, "optimizer": "muon"},  # type: ignore[arg-type]
        **{"batch_size": 8, "max_steps": 20, "warmup_steps": 2, "learning_rate": 5e-3, "eval_steps": 10},  # type: ignore[arg-type]
    )
    mask = MaskConfig(sequence_length=48, max_predictions_per_seq=8)
    source = [DrawnInstances.of(token_shard(shard_of, 80), "shard", 0, mask, vocabulary())]
    torch.manual_seed(settings.seed)
    model = build_pretraining(settings.model.build(vocabulary().size))
    data = TrainingData(batches=Loader(lambda epoch: source, settings.batch_size, settings.seed), heldout=source)
    return Pretraining(settings, model, data, distributed.make_accelerator(), Checkpoints(directory / "checkpoints"))


def test_it_trains_resumes_is_saved_and_fine_tuned(tmp_path: Path) -> None:
    whole = training(tmp_path / "whole", tmp_path)
    before = whole.evaluate()
    after = whole.run()
    for term in ("first", "twin"):
        assert after[f"eval/{term}_loss"] < before[f"eval/{term}_loss"] - 0.05
    assert after["eval/loss"] == pytest.approx(after["eval/first_loss"] + 0.25 * after["eval/twin_loss"])

    stopped = training(tmp_path / "stopped", tmp_path)
    for _ in range(7):
        stopped.train_step()
    stopped.keep()
    resumed = training(tmp_path / "stopped", tmp_path)
    resumed.run()
    for name, tensor in whole._trained.state_dict().items():
        assert torch.equal(resumed._trained.state_dict()[name], tensor), name
    assert any(name.startswith("objective.twin.") for name in whole._trained.state_dict())

    save_pretrained(whole.model, tmp_path / "model")
    head = build_head(load_config(tmp_path / "model"), "sequence_classification", 2)
    assert load_pretrained(head.base_model, tmp_path / "model").missing == []
    layout, ids = Layout.from_lengths(torch.tensor([3, 3])), torch.tensor([2, 7, 3, 2, 9, 3])
    optimizer = torch.optim.SGD(head.parameters(), 0.5)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(head(ids, torch.zeros_like(ids), layout), torch.tensor([0, 1]))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
