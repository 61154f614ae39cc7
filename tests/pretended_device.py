"""A device that is not there, for tests on machines without a GPU: `pytest -p tests.pretended_device TESTS`.

Its tensors say that they are on it, and refuse what a GPU refuses: to be computed with beside a tensor on the CPU, or
to be numpy's. What they hold, and all computing, is the CPU's. torch calls whatever lies outside of it PrivateUse1; one
process can have one such device, and has it to its end, so that these tests have a process of their own.

`bertcore.precision.device` and the accelerator give this device, as they give a GPU. What is written for CUDA alone
(`torch.cuda`, its kernels) is not run.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import bertcore  # noqa: F401  (before torch computes: it says how torch's threads wait)
from bertcore import precision
from bertcore.training import flops, machine

NAME = "pretended"
_BETWEEN_DEVICES = {"aten::copy_", "aten::_to_copy"}


class Backend:
    """What torch asks the module of a device for."""

    is_initialized = is_available = staticmethod(lambda: True)
    _is_in_bad_fork = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    manual_seed_all = staticmethod(lambda seed: None)  # what it draws comes from the CPU's generator
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16])


_setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
DEVICE = torch.device(NAME, 0)


class Pretended(Tensor):
    """A tensor on the device, which holds one on the CPU."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "Pretended":
        like = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        made = Tensor._make_wrapper_subclass(cls, held.shape, **like, device=DEVICE)  # type: ignore[attr-defined]
        made.held = held.detach()
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.is_inference_mode_enabled() and func._can_decompose():  # elsewhere torch has done so
            return func.decompose(*args, **(kwargs or {}))
        return computed(func, *args, **(kwargs or {}))

    def tolist(self) -> Any:
        return self.held.tolist()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"{NAME} {self.held!r}"


def computed(func: Any, *args: Any, **kwargs: Any) -> Any:
    """What `func` gives on the CPU, as tensors on the device; `RuntimeError` where it is given tensors of both."""
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    own = {id(each.held): each for each in tensors if isinstance(each, Pretended)}
    name, device = func._schema.name, kwargs.get("device")
    if own and name not in _BETWEEN_DEVICES and (strangers := [*_strangers(func, tensors)]):
        places = [(str(each.device.type), *each.shape) for each in tensors]
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, found {places}: {strangers}")
    if device is not None or name == "aten::_to_copy":
        kwargs["device"] = "cpu"
    args, kwargs = tree_map(lambda each: each.held if isinstance(each, Pretended) else each, (args, kwargs))
    result = func(*args, **kwargs)
    if device is not None and torch.device(device).type == "cpu":
        return result
    if name == "aten::copy_" and not own:
        return result

    def placed(each: Any) -> Any:
        if not isinstance(each, Tensor) or any(each is tensor for tensor in tensors):
            return each
        if id(each) in own:
            return own[id(each)]
        with torch.inference_mode(next(iter(own.values())).is_inference()) if func.is_view else nullcontext():
            return Pretended(each)

    return tree_map(placed, result)


def _strangers(func: Any, tensors: list[Tensor]) -> Iterator[Tensor]:
    """Those on the CPU, but for a single number that is read by what computes number by number."""
    for place, each in enumerate(tensors):
        written = place == 0 and func._schema.is_mutable
        number = each.ndim == 0 and torch.Tag.pointwise in func.tags and not written
        if not isinstance(each, Pretended) and not number:
            yield each


# What torch would make of other functions, past the one above or in an array that it enlarges.
_AT_ONCE = ("copy_", "arange", "arange.start", "arange.start_step", "eye", "eye.m")
_every, _named = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
_every.fallback(computed, "PrivateUse1")
for _name in _AT_ONCE:
    _function, _, _overload = _name.partition(".")
    _overloaded = getattr(getattr(torch.ops.aten, _function), _overload or "default")
    _named.impl(_name, partial(computed, _overloaded), "PrivateUse1")

torch.__future__.set_swap_module_params_on_conversion(True)  # a parameter stays the same object, as on a GPU
# Before any other module has them by name.
precision.device = lambda: DEVICE
PartialState.default_device = property(lambda self: DEVICE)
machine.Accelerator = lambda cpu, **settings: Accelerator(**settings)  # type: ignore[assignment, misc]
flops._PEAK_SIZES[NAME] = 64
