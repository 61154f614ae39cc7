"""What so many processes cannot train: batches that are too small, and what needs undivided weights."""

from bertcore.errors import ConfigError
from bertcore.training.config import PretrainConfig

_BY_ELEMENT = ("adamw", "bert_adam")
"""Optimizers that may see a part of a matrix."""


def check_division(config: PretrainConfig, processes: int, divided: bool, several: bool = False) -> None:
    """`ConfigError` where so many processes cannot train these batches. `divided`: each holds a part of every weight;
    `several`: the objective trains models that share weights."""
    sizes = {phase.key: phase.batch_size for phase in config.phases}
    if config.batch_size_start is not None:
        sizes["pretrain.batch_size_start"] = config.batch_size_start
    for name, size in sizes.items():
        if size < processes:
            raise ConfigError(
                f"{name}: found {size} for {processes} processes, expected a sequence for each; raise it, or start "
                "fewer (BERTCORE_PROCESSES)"
            )
        if divided and size % processes:
            raise ConfigError(
                f"{name}: found {size} for {processes} processes that divide the weights, expected a multiple: all "
                "must make the same number of passes"
            )
    pairs = None if config.eval_pairs is None else config.eval_pairs.files
    for name, found in (
        ("batch_size_start", config.batch_size_start),
        ("ema_decay", config.ema_decay),
        ("eval_pairs", pairs),
    ):
        if divided and found is not None:
            raise ConfigError(
                f"pretrain.{name}: found {found} where the processes divide the weights, expected null; remove it, or "
                "take infra/accelerate/gpus.yaml"
            )
    if divided and several:
        raise ConfigError(
            f"pretrain.objective: found {config.objective!r} where the processes divide the weights, expected one that "
            "trains one model: two that share weights cannot be divided; take infra/accelerate/gpus.yaml"
        )
    if divided and config.optimizer not in _BY_ELEMENT:
        raise ConfigError(
            f"pretrain.optimizer: found {config.optimizer}, expected {' or '.join(_BY_ELEMENT)} where the processes "
            "divide the weights: it looks at whole matrices; change it, or take infra/accelerate/gpus.yaml"
        )
