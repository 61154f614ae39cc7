"""New heads are trained alone first: nothing else moves in those steps, and all does after them."""

import logging
from pathlib import Path

import pytest
import torch

from bertcore.training.config import PretrainConfig
from bertcore.training.head_warmup import HeadWarmup
from bertcore.training.loop import Pretraining
from tests.bertcore.training.test_loop import config, training, weights

HEAD = "cls.predictions.transform."


def adapting(directory: Path, settings: PretrainConfig) -> Pretraining:
    """A training whose masked-token head is new."""
    run = training(directory, settings)
    new = [name for name in run.model.state_dict() if name.startswith("cls.predictions.")]
    run._warmup = run._gradients._warmup = HeadWarmup(run.model, new, settings)
    return run


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_encoder_stays_until_the_head_has_been_trained(optimizer: str, tmp_path: Path) -> None:
    run = adapting(tmp_path, config(init_from="org/encoder", head_warmup_steps=3, warmup_steps=0, optimizer=optimizer))
    start = weights(run)
    for _ in range(3):
        run.train_step()
    changed = {name for name, tensor in weights(run).items() if not torch.equal(tensor, start[name])}
    assert f"{HEAD}dense.weight" in changed and "cls.predictions.bias" in changed
    assert all(name.startswith("cls.predictions.") for name in changed)
    run.train_step()
    changed = {name for name, tensor in weights(run).items() if not torch.equal(tensor, start[name])}
    assert "bert.encoder.layer.0.attention.qkv.weight" in changed
    assert "bert.embeddings.word_embeddings.weight" in changed


def test_the_rate_rises_anew_when_the_encoder_joins(tmp_path: Path) -> None:
    rates = {"warmup_steps": 2, "max_steps": 12, "schedule": "constant", "learning_rate": 1e-2}
    run = adapting(tmp_path, config(init_from="org/encoder", head_warmup_steps=4, **rates))
    found = []
    for _ in range(8):
        found.append(run.learning_rate())
        run.train_step()
    assert found == pytest.approx([0, 1e-2, 1e-2, 1e-2, 0, 0.5e-2, 1e-2, 1e-2])
    usual = training(tmp_path, config(**rates))
    assert [usual._warmup.learning_rate(step) for step in range(4)] == pytest.approx([0, 0.5e-2, 1e-2, 1e-2])


def test_a_long_warm_up_of_the_training_is_none_of_the_heads(tmp_path: Path) -> None:
    settings = config(init_from="x", max_steps=10_000, warmup_steps=None, schedule="linear", learning_rate=1.0)
    warmup = HeadWarmup(training(tmp_path).model, ["cls.predictions.bias"], settings)
    rates = [warmup.learning_rate(step) for step in range(1000)]
    assert rates[:20] == pytest.approx([step / 20 for step in range(20)]) and rates[20:200] == [1.0] * 180
    assert (
        rates[200] == 0
        and rates[500] == pytest.approx(0.5)
        and rates[800:] == pytest.approx([settings.learning_rate_at(step) for step in range(800, 1000)])
    )


def test_it_is_resumed_with_the_same_bits(tmp_path: Path) -> None:
    settings = config(init_from="org/encoder", head_warmup_steps=5)
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    whole, broken = adapting(tmp_path / "whole", settings), adapting(tmp_path / "broken", settings)
    whole.run()
    broken = adapting(tmp_path / "broken", settings)
    for _ in range(3):
        broken.train_step()
    broken._keeper.save()
    resumed = adapting(tmp_path / "broken", settings)
    resumed.run()
    assert resumed.state.resumed_from == {"step": 3, "run_id": ""}
    for name, tensor in weights(whole).items():
        assert torch.equal(weights(resumed)[name], tensor), name


def test_the_log_says_what_is_new_and_what_is_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = training(tmp_path)
    with caplog.at_level(logging.INFO):
        HeadWarmup(run.model, ["cls.predictions.bias"], config(init_from="org/encoder", head_warmup_steps=4))
        HeadWarmup(run.model, ["cls.predictions.bias"], config(init_from="org/encoder", head_warmup_steps=0))
        HeadWarmup(run.model, [], config(init_from="org/encoder"))
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "org/encoder has no cls.predictions.bias: new weights, trained alone for the first 4 steps"
    assert second.endswith("new weights, trained with all others")
