"""A model and its optimizer as whole tensors by name, also where FSDP divides them among the processes."""

from typing import Any

from accelerate import Accelerator
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from bertcore.model.bert import BertForPreTraining

_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def divided(module: nn.Module) -> bool:
    """Whether each process holds a part of every weight only."""
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def whole_state(module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """`model` and `optimizer`, complete on rank 0; every process must ask where they are divided."""
    if not divided(module):
        return {"model": module.state_dict(), "optimizer": optimizer.state_dict()}
    model_state, optimizer_state = get_state_dict(module, optimizer, options=_WHOLE)
    return {"model": model_state, "optimizer": optimizer_state}


def load_whole_state(module: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Take over what `whole_state` gave, in a training divided as that one was."""
    if divided(module):
        set_state_dict(
            module,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
            options=StateDictOptions(full_state_dict=True),
        )
    else:
        module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])


def whole_model(model: BertForPreTraining, accelerator: Accelerator) -> BertForPreTraining:
    """`model` itself, or a copy with all weights (on rank 0; elsewhere it has none to rely on)."""
    if not divided(model):
        return model
    state = get_model_state_dict(model, options=_WHOLE)
    copy = BertForPreTraining(model.config)
    if accelerator.is_main_process:
        copy.load_state_dict(state)
    return copy
