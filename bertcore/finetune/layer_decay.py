"""Learning rates that fall from the head down to the embeddings (ULMFiT, Howard and Ruder 2018; ELECTRA, 2020)."""

import re
from typing import Any

from torch.optim import Optimizer

from bertcore.model.bert import BertModule

SCALE = "lr_scale"
"""In a parameter group: its learning rate over that of the head. Absent = 1."""

_LAYER = re.compile(r"bert\.encoder\.layer\.(\d+)\.")


def scale_layers(optimizer: Optimizer, model: BertModule, decay: float) -> None:
    """Split the groups of `optimizer`, which has made no step yet, into one for each layer, with its `SCALE`.

    1 for the head and the pooler, `decay` for the topmost layer, its square for the one below it, and so on down to the
    embeddings. What a group says of each of its parameters (`blocks`) is split with them.
    """
    if decay == 1.0:
        return
    layers = model.config.num_hidden_layers
    depth = {parameter: _steps_below_head(name, layers) for name, parameter in model.named_parameters()}
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        for steps in sorted({depth[parameter] for parameter in group["params"]}):
            places = [place for place, parameter in enumerate(group["params"]) if depth[parameter] == steps]
            parallel = {name: [group[name][place] for place in places] for name in _parallel(group)}
            groups.append({**group, **parallel, SCALE: decay**steps})
    optimizer.param_groups[:] = groups


def _parallel(group: dict[str, Any]) -> list[str]:
    """The entries that have a value for each parameter."""
    return ["params", *(["blocks"] if group.get("blocks") else [])]


def _steps_below_head(name: str, layers: int) -> int:
    if name.startswith("bert.embeddings."):
        return layers + 1
    found = _LAYER.match(name)
    return layers - int(found[1]) if found else 0


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """`rate` is the head's."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get(SCALE, 1.0)
