"""Which parameters decay, and where one parameter is several matrices."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from bertcore.training.optimizers.config import OptimizationConfig


def parameter_groups(model: nn.Module, config: OptimizationConfig) -> list[dict[str, Any]]:
    """Two groups: matrices and embeddings, which decay, and biases and layer norms (one dimension), which may not."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    spared = config.weight_decay if config.decay_biases_and_norms else 0.0
    return [
        {"params": [parameter for parameter in parameters if parameter.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [parameter for parameter in parameters if parameter.ndim < 2], "weight_decay": spared},
    ]


def trained(group: dict[str, Any]) -> list[Tensor]:
    """The parameters of a group that have a gradient."""
    return [parameter for parameter in group["params"] if parameter.grad is not None]


def block_counts(model: nn.Module, parameters: Sequence[nn.Parameter]) -> list[int]:
    """Of how many matrices, one above the other, each parameter is made: 3 for query, key and value in one, else 1.

    Kept as `blocks` of a group. An optimizer that looks at a matrix as a whole must see them apart, as in a model that
    keeps three parameters.
    """
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [3 if names[parameter].endswith("qkv.weight") else 1 for parameter in parameters]


def trained_blocks(group: dict[str, Any]) -> list[int]:
    """What `blocks` of the group says of each of `trained(group)`."""
    pairs = zip(group["params"], group["blocks"], strict=True)
    return [count for parameter, count in pairs if parameter.grad is not None]
