"""What a training demands of its processes, known once they have come up."""

from bertcore.errors import ConfigError
from bertcore.training.config import PretrainConfig

_BY_ELEMENT = ("adamw", "bert_adam")
"""Optimizers that may see a part of a matrix."""


def check_division(config: PretrainConfig, processes: int, divided: bool) -> None:
    """`ConfigError` where the batches, or weights that are `divided` among the processes, cannot be trained so."""
    sizes = {"pretrain.batch_size": config.batch_size}
    if config.second_phase and config.second_phase.batch_size:
        sizes["pretrain.second_phase.batch_size"] = config.second_phase.batch_size
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
    if divided and config.optimizer not in _BY_ELEMENT:
        raise ConfigError(
            f"pretrain.optimizer: found {config.optimizer}, expected {' or '.join(_BY_ELEMENT)} where the processes "
            "divide the weights: it looks at whole matrices; change it, or take infra/accelerate/gpus.yaml"
        )
