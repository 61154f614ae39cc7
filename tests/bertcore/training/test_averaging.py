"""The average of the weights: its closed form, its exchange with the model, and what a training does with it."""

from pathlib import Path

import pytest
import torch
from torch import nn

from bertcore.errors import StoppedError
from bertcore.training.averaging import WeightAverage
from bertcore.training.loop import Pretraining
from tests.bertcore.training.test_loop import config, training, weights


def test_it_is_the_recurrence_with_a_warm_up() -> None:
    model, expected = nn.Linear(3, 2), []
    average = WeightAverage(model, 0.5)
    mean = model.weight.detach().double().clone()
    generator = torch.Generator().manual_seed(1)
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.copy_(torch.randn(2, 3, generator=generator))
        average.update()
        decay = min(0.5, (1 + step) / (10 + step))
        mean = decay * mean + (1 - decay) * model.weight.detach().double()
        expected.append(decay)
    assert expected[0] == 2 / 11 and expected[-1] == 0.5
    own = model.weight.detach().clone()
    with average.in_place():
        torch.testing.assert_close(model.weight.detach().double(), mean, rtol=1e-6, atol=1e-6)
    assert torch.equal(model.weight, own)


def test_the_model_gets_its_weights_back_after_an_error() -> None:
    model = nn.Linear(3, 2)
    average, own = WeightAverage(model, 0.9), model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1)
    with pytest.raises(KeyError), average.in_place():
        assert torch.equal(model.weight, own)
        raise KeyError
    assert torch.equal(model.weight, own + 1)


def test_the_average_is_evaluated_and_exported_and_the_steps_are_those_without(tmp_path: Path) -> None:
    def after_8_steps(**values: float) -> Pretraining:
        run = training(tmp_path, config(**values))
        for _ in range(8):
            run.train_step()
        return run

    plain, averaged = after_8_steps(), after_8_steps(ema_decay=0.9)
    for name, tensor in weights(plain).items():
        assert torch.equal(weights(averaged)[name], tensor), name
    found, exported = averaged.evaluate(), averaged.whole_models()[""]
    assert found != plain.evaluate()
    plain.model.load_state_dict(exported.state_dict())
    assert found == plain.evaluate()


def test_a_resumed_training_has_the_same_average_and_curves(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    whole = training(tmp_path / "whole", config(ema_decay=0.9))
    whole.run()
    broken = training(tmp_path / "broken", config(ema_decay=0.9, checkpoint_steps=7))
    while broken.state.step < 7:
        broken._train_and_report()
        if broken.state.step == 5:
            broken.state.history.add(5, broken.evaluate())
    broken._keeper.save()
    resumed = training(tmp_path / "broken", config(ema_decay=0.9))
    resumed.run()
    assert resumed.state.resumed_from == {"step": 7, "run_id": ""}
    assert resumed.state.history.curves == whole.state.history.curves
    for (name, tensor), other in zip(
        whole.whole_models()[""].state_dict().items(), resumed.whole_models()[""].state_dict().values(), strict=True
    ):
        assert torch.equal(tensor, other), name


def test_a_stop_while_it_is_evaluated_keeps_the_weights_themselves(tmp_path: Path) -> None:
    run = training(tmp_path, config(ema_decay=0.9))
    for _ in range(4):
        run.train_step()
    before = weights(run)
    run._keeper._supervision.stop._asked.set()
    with pytest.raises(StoppedError):
        run.evaluate()
    resumed = training(tmp_path, config(ema_decay=0.9))
    resumed.resume()
    assert resumed.state.step == 4
    for name, tensor in before.items():
        assert torch.equal(weights(resumed)[name], tensor), name
