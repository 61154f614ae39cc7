"""Which parameters decay, at which learning rates, and where one parameter is several matrices."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from bertcore.model.layers import EncoderLayer
from bertcore.training.optimizers.config import OptimizationConfig

LR_SCALE = "lr_scale"
"""In a group: its learning rate over that of the training. Absent = 1."""


def parameter_groups(model: nn.Module, config: OptimizationConfig) -> list[dict[str, Any]]:
    """Matrices and embeddings, which decay, and biases and layer norms (one dimension), which may not.

    A group for each learning rate and decay among the matrices, that of the encoder's first.
    """
    refinements = config.refinements
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in parameters if parameter.ndim >= 2]
    hidden, tables = hidden_matrices(model), _tables(model)
    hidden_decay = config.weight_decay if refinements.hidden_decay is None else refinements.hidden_decay
    kinds = {
        each: (1.0, hidden_decay) if each in hidden else (refinements.head, config.weight_decay) for each in matrices
    }
    kinds |= {each: (refinements.embeddings, config.weight_decay) for each in matrices if each in tables}
    groups = [
        {"params": [each for each in matrices if kinds[each] == kind], "weight_decay": kind[1], LR_SCALE: kind[0]}
        for kind in sorted(set(kinds.values()), key=lambda kind: (kind != (1.0, hidden_decay), kind))
    ]
    spared = config.weight_decay if config.decay_biases_and_norms else 0.0
    vectors = [parameter for parameter in parameters if parameter.ndim < 2]
    return [*groups, {"params": vectors, "weight_decay": spared, LR_SCALE: refinements.vectors}]


def hidden_matrices(model: nn.Module) -> set[nn.Parameter]:
    """The matrices of the encoder layers."""
    layers = [module for module in model.modules() if isinstance(module, EncoderLayer)]
    return {parameter for layer in layers for parameter in layer.parameters() if parameter.ndim == 2}


def _tables(model: nn.Module) -> set[Tensor]:
    return {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the rate of every group to its share of `rate`."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get(LR_SCALE, 1.0)


def trained(group: dict[str, Any]) -> list[Tensor]:
    """The parameters of a group that have a gradient."""
    return [parameter for parameter in group["params"] if parameter.grad is not None]


def block_counts(model: nn.Module, parameters: Sequence[nn.Parameter]) -> list[int]:
    """Of how many matrices, one above the other, each parameter is made, as its layer says (`fused`).

    Kept as `blocks` of a group. An optimizer that looks at a matrix as a whole must see them apart, as in a model that
    keeps three parameters.
    """
    counts: dict[nn.Parameter, int] = {}
    for layer in (module for module in model.modules() if isinstance(module, EncoderLayer)):
        counts |= {parameter: layer.fused.get(name, 1) for name, parameter in layer.named_parameters()}
    return [counts.get(parameter, 1) for parameter in parameters]


def trained_blocks(group: dict[str, Any]) -> list[int]:
    """What `blocks` of the group says of each of `trained(group)`."""
    pairs = zip(group["params"], group["blocks"], strict=True)
    return [count for parameter, count in pairs if parameter.grad is not None]
