"""Schedules against transformers' and the published formula."""

from typing import get_args

import pytest
import torch

from bertcore.training.schedule import ScheduleName, above, decay_begin, rate_share


@pytest.mark.parametrize(
    ("theirs", "name"),
    [("get_linear_schedule_with_warmup", "linear"), ("get_cosine_schedule_with_warmup", "cosine")],
)
def test_linear_and_cosine_equal_transformers(theirs: str, name: ScheduleName) -> None:
    import transformers

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    expected = getattr(transformers, theirs)(optimizer, num_warmup_steps=7, num_training_steps=50)
    for step in range(50):
        assert rate_share(name, step, 7, 50) == pytest.approx(expected.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        expected.step()


def test_bert_counts_the_decay_from_step_0() -> None:
    assert [rate_share("bert", step, 10, 100) for step in (0, 5, 10, 50, 100)] == [0, 0.5, 0.9, 0.5, 0]


def test_constant_stays() -> None:
    assert [rate_share("constant", step, 4, 9) for step in (0, 2, 4, 8)] == [0, 0.5, 1, 1]


@pytest.mark.parametrize("name", get_args(ScheduleName))
def test_no_warmup_starts_at_the_peak(name: ScheduleName) -> None:
    assert rate_share(name, 0, 0, 10) == 1


def test_wsd_warms_up_stays_and_falls_to_0() -> None:
    found = [rate_share("wsd", step, 4, 20, 0.25) for step in (0, 2, 4, 14, 15, 16, 19, 20)]
    assert found == [0, 0.5, 1, 1, 1, 0.8, 0.2, 0]
    assert [rate_share("wsd", step, 0, 10, 1.0) for step in range(11)] == [
        rate_share("linear", at, 0, 10) for at in range(11)
    ]


def test_wsd_does_not_know_its_length_before_it_falls() -> None:
    for step in range(decay_begin(100, 0.2)):
        assert rate_share("wsd", step, 10, 100) == rate_share("wsd", step, 10, 1000)


def test_a_floor_is_where_the_fall_ends() -> None:
    assert above(0.0, 0.3) == 0.3
    assert [above(0.1, share) for share in (1.0, 0.5, 0.0)] == pytest.approx([1.0, 0.55, 0.1])
