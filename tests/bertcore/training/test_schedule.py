"""Schedules against transformers' and the published formula."""

import pytest
import torch

from bertcore.training.schedule import SCHEDULES, bert, constant, cosine, linear


@pytest.mark.parametrize(
    ("name", "schedule"),
    [("get_linear_schedule_with_warmup", linear), ("get_cosine_schedule_with_warmup", cosine)],
)
def test_linear_and_cosine_equal_transformers(name: str, schedule) -> None:
    import transformers

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = getattr(transformers, name)(optimizer, num_warmup_steps=7, num_training_steps=50)
    for step in range(50):
        assert schedule(step, 7, 50) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        theirs.step()


def test_bert_counts_the_decay_from_step_0() -> None:
    assert [bert(step, 10, 100) for step in (0, 5, 10, 50, 100)] == [0, 0.5, 0.9, 0.5, 0]


def test_constant_stays() -> None:
    assert [constant(step, 4, 9) for step in (0, 2, 4, 8)] == [0, 0.5, 1, 1]


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_no_warmup_starts_at_the_peak(name: str) -> None:
    assert SCHEDULES[name](0, 0, 10) == 1
