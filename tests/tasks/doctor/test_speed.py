"""The speed of a training: real steps of every architecture, and of a deep model what its layers add."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor

from bertcore.model.config import ARCHITECTURES, ModelConfig
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.layers import LayerStack
from bertcore.training.config import PretrainConfig
from tasks.doctor import speed
from tasks.doctor.estimate import Load
from tasks.doctor.speed import training_speed

LOAD = Load(sequences=4, length=16, masked=2)


def tiny(architecture: str, **changes: int) -> EncoderConfig:
    return replace(ModelConfig(architecture=architecture, preset="tiny").build(64), **changes)


@pytest.mark.parametrize(
    ("architecture", "objective"),
    [*((name, "mlm") for name in ARCHITECTURES), ("deberta-v2", "replaced_tokens"), ("electra", "replaced_tokens")],
)
def test_steps_of_every_architecture_are_measured(
    architecture: str, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "_SECONDS", 0.0)
    training = PretrainConfig(model=ModelConfig(architecture=architecture), objective=objective)
    found = training_speed(tiny(architecture), training, LOAD)
    assert found.flops > 0 and found.update > 0


def test_a_deep_model_is_not_built_and_costs_what_its_layers_add(monkeypatch: pytest.MonkeyPatch) -> None:
    built = Counter[int]()

    def seconds(config: EncoderConfig, *_: object) -> NDArray[np.float64]:
        built[config.num_hidden_layers] += 1
        return np.array([0.5 + 0.25 * config.num_hidden_layers, 0.1 * config.num_hidden_layers])

    monkeypatch.setattr(speed, "_step", seconds)
    monkeypatch.setattr(speed, "sequence_flops", lambda *_: 10.0)
    found = training_speed(tiny("bert", num_hidden_layers=24), PretrainConfig(), LOAD)
    assert found.flops == pytest.approx(LOAD.sequences * 10.0 / (0.5 + 0.25 * 24)) and built == {1: 1, 4: 1}
    assert found.update == pytest.approx(2.4)


def test_a_deep_model_of_several_groups_has_no_more_of_them_than_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_SECONDS", 0.0)
    deep = replace(
        ModelConfig(architecture="albert", preset="tiny").build(64), num_hidden_layers=6, num_hidden_groups=3
    )
    training = PretrainConfig(model=ModelConfig(architecture="albert"), objective="mlm")
    assert training_speed(deep, training, LOAD).flops > 0


def test_activations_are_computed_again_where_the_training_does_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def look(stack: LayerStack, *given: object) -> Tensor:
        seen.append(stack.activation_checkpointing)
        return forward(stack, *given)  # type: ignore[arg-type]

    forward = LayerStack.forward
    monkeypatch.setattr(LayerStack, "forward", look)
    for checkpointing in (False, True):
        seen.clear()
        training_speed(tiny("bert"), PretrainConfig(objective="mlm"), replace(LOAD, checkpointing=checkpointing))
        assert set(seen) == {checkpointing}
