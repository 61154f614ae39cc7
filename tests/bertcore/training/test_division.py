"""What a number of processes can train, and what it cannot."""

import pytest

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.training.config import PretrainConfig
from bertcore.training.division import check_division


def config(**values: object) -> PretrainConfig:
    return parse(PretrainConfig, {"batch_size": 8, "max_steps": 4, "warmup_steps": 1, **values}, "pretrain")


@pytest.mark.parametrize(
    ("settings", "processes", "divided", "message"),
    [
        ({"batch_size": 2}, 4, False, r"^pretrain\.batch_size: found 2 for 4 processes, expected a sequence for each"),
        ({"batch_size": 6}, 4, True, "found 6 for 4 processes that divide the weights, expected a multiple"),
        ({"second_phase": {"share": 0.5, "batch_size": 3}}, 4, False, r"second_phase\.batch_size: found 3 for 4"),
        ({"optimizer": "muon"}, 2, True, "optimizer: found muon, expected adamw or bert_adam where the processes"),
        ({"optimizer": "lamb"}, 2, True, "found lamb"),
        ({"batch_size_start": 2}, 4, False, r"batch_size_start: found 2 for 4 processes"),
        ({"batch_size_start": 4}, 4, True, r"batch_size_start: found 4 where the processes divide the weights"),
        ({"ema_decay": 0.9}, 4, True, r"ema_decay: found 0\.9 where the processes divide the weights"),
        ({"eval_pairs": {"pairs": "a.jsonl"}}, 4, True, r"eval_pairs: found \['a\.jsonl'\] where the"),
    ],
)
def test_what_processes_cannot_train_is_refused(
    settings: dict[str, object], processes: int, divided: bool, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_division(config(**settings), processes, divided)


def test_what_they_can_is_not() -> None:
    check_division(config(optimizer="muon", batch_size=6), 4, divided=False)
    check_division(config(optimizer="bert_adam", batch_size=8), 4, divided=True)
