"""What holds for every optimizer."""

import io

import pytest
import torch

from bertcore.training.optimizers import OPTIMIZERS
from tests.bertcore.training.optimizers.small import build, draw_gradients, small_model, take_steps

every_optimizer = pytest.mark.parametrize("name", sorted(OPTIMIZERS))


@every_optimizer
def test_saved_and_loaded_goes_on_with_the_same_bits(name: str) -> None:
    model = small_model()
    optimizer = build(model, name)
    list(take_steps(model, optimizer, range(4)))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other = small_model()
    resumed = build(other, name)
    other.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    for this, that in ((model, optimizer), (other, resumed)):
        list(take_steps(this, that, range(4, 9)))
    for key, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[key]), key


@every_optimizer
def test_what_has_no_gradient_stays_until_it_has_one(name: str) -> None:
    model = small_model()
    optimizer = build(model, name, learning_rate=0.01)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    draw_gradients(model, 1)
    without = [key for index, (key, _) in enumerate(model.named_parameters()) if index % 3 == 0]
    for key in without:
        model.get_parameter(key).grad = None
    optimizer.step()
    assert sorted(without) == sorted(key for key, old in before.items() if torch.equal(old, model.state_dict()[key]))
    draw_gradients(model, 2)
    optimizer.step()
    assert not any(torch.equal(old, model.state_dict()[key]) for key, old in before.items())


@every_optimizer
def test_no_gradient_at_all_is_no_step(name: str) -> None:
    model = small_model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    build(model, name).step()
    assert all(torch.equal(old, model.state_dict()[key]) for key, old in before.items())


@every_optimizer
def test_the_learning_rate_0_of_a_warmup_moves_nothing(name: str) -> None:
    model = small_model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert [rate for _, rate in take_steps(model, build(model, name), range(1))] == [0.0]
    assert all(torch.equal(old, model.state_dict()[key]) for key, old in before.items())


@pytest.mark.parametrize("everything", [False, True])
@every_optimizer
def test_only_matrices_decay_unless_everything_shall(name: str, everything: bool) -> None:
    model = small_model()
    settings = {"learning_rate": 0.1, "weight_decay": 0.5, "decay_biases_and_norms": everything}
    optimizer = build(model, name, **settings)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    # The decay is all there is of the update, which lamb makes as long as the matrix.
    kept = 1 - 0.1 * (1.0 if name == "lamb" else 0.5)
    for key, value in model.state_dict().items():
        if value.ndim >= 2:
            torch.testing.assert_close(value, before[key] * kept)
        else:
            expected = before[key] * (1 - 0.1 * 0.5) if everything else before[key]
            torch.testing.assert_close(value, expected)


@every_optimizer
def test_frozen_parameters_are_left_out(name: str) -> None:
    model = small_model()
    model.bert.embeddings.requires_grad_(False)
    optimizer = build(model, name)
    held = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    assert held == {parameter for parameter in model.parameters() if parameter.requires_grad}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(held)
