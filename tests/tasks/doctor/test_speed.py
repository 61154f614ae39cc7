"""The speed of a training: real steps of every architecture, and of a deep model what its layers add."""

from collections import Counter
from dataclasses import replace

import pytest
from torch import Tensor

from bertcore.model.architecture import EncoderConfig
from bertcore.model.config import ARCHITECTURES, ModelConfig
from bertcore.model.layers import LayerStack
from bertcore.training.config import PretrainConfig
from tasks.doctor import speed
from tasks.doctor.estimate import Work
from tasks.doctor.speed import training_speed

WORK = Work(sequences=4, length=16, masked=2)


def tiny(architecture: str, **changes: int) -> EncoderConfig:
    return replace(ModelConfig(architecture=architecture, preset="tiny").build(64), **changes)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_steps_of_every_architecture_are_measured(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_SECONDS", 0.0)
    objective = "mlm" if ARCHITECTURES[architecture].generator is None else "replaced_tokens"
    training = PretrainConfig(model=ModelConfig(architecture=architecture), objective=objective)
    assert training_speed(tiny(architecture), training, WORK, 8) > 0


def test_a_deep_model_is_not_built_and_costs_what_its_layers_add(monkeypatch: pytest.MonkeyPatch) -> None:
    built = Counter[int]()

    def seconds(config: EncoderConfig, *_: object) -> float:
        built[config.num_hidden_layers] += 1
        return 0.5 + 0.25 * config.num_hidden_layers

    monkeypatch.setattr(speed, "_step", seconds)
    monkeypatch.setattr(speed, "sequence_flops", lambda *_: 10.0)
    found = training_speed(tiny("bert", num_hidden_layers=24), PretrainConfig(), WORK, 8)
    assert found == pytest.approx(8 * 10.0 / (0.5 + 0.25 * 24)) and built == {1: 1, 4: 1}


def test_a_deep_model_of_several_groups_has_no_more_of_them_than_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_SECONDS", 0.0)
    deep = replace(
        ModelConfig(architecture="albert", preset="tiny").build(64), num_hidden_layers=6, num_hidden_groups=3
    )
    training = PretrainConfig(model=ModelConfig(architecture="albert"), objective="mlm")
    assert training_speed(deep, training, WORK, 8) > 0


def test_activations_are_computed_again_where_the_training_does_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def look(stack: LayerStack, *given: object) -> Tensor:
        seen.append(stack.activation_checkpointing)
        return forward(stack, *given)  # type: ignore[arg-type]

    forward = LayerStack.forward
    monkeypatch.setattr(LayerStack, "forward", look)
    for checkpointing in (False, True):
        seen.clear()
        training_speed(tiny("bert"), PretrainConfig(objective="mlm"), replace(WORK, checkpointing=checkpointing), 4)
        assert set(seen) == {checkpointing}


def test_a_step_of_more_sequences_than_are_measured_takes_so_much_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_timed", lambda work, device: work() or 1.0)
    training = PretrainConfig(objective="mlm")
    seconds = [speed._step(tiny("bert"), training, WORK, share) for share in (4, 40)]
    assert seconds == [2.0, 11.0], "ten times the gradients, and one update"
