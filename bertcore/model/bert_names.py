"""The names of BERT's encoder parameters here and in Hugging Face's BERT; names of heads are the same on both sides.

Both functions are pure: any head's tensors pass through them unchanged. The shapes differ in one place only: query, key
and value are one matrix here, stacked in this order, and three there.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

# A module of an encoder layer: ours -> theirs.
_LAYER_MODULES = {
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}
_OURS = {theirs: ours for ours, theirs in _LAYER_MODULES.items()}
_QKV = ("query", "key", "value")
_LAYER = re.compile(r"((?:.*\.)?encoder\.layer\.\d+\.)(.+)\.(weight|bias)")
_OLD_NORM_NAMES = {"gamma": "weight", "beta": "bias"}  # of LayerNorm, in conversions from TensorFlow


def to_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our state dict under Hugging Face's names."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        layer = _LAYER.fullmatch(name)
        if layer is None:
            renamed[name] = tensor
            continue
        prefix, module, kind = layer.groups()
        if module == "attention.qkv":
            for part, third in zip(_QKV, tensor.chunk(3), strict=True):
                renamed[f"{prefix}attention.self.{part}.{kind}"] = third
        else:
            renamed[f"{prefix}{_LAYER_MODULES[module]}.{kind}"] = tensor
    return renamed


def from_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Hugging Face's state dict under our names. Names that are not an encoder's are left as they are."""
    modern = {_modern(name): tensor for name, tensor in state.items()}
    renamed: dict[str, Tensor] = {}
    for name, tensor in modern.items():
        layer = _LAYER.fullmatch(name)
        prefix, module, kind = layer.groups() if layer else ("", "", "")
        if module == "attention.self.query":
            parts = [modern.get(f"{prefix}attention.self.{part}.{kind}") for part in _QKV]
            if all(part is not None for part in parts):
                renamed[f"{prefix}attention.qkv.{kind}"] = torch.cat([part for part in parts if part is not None])
        elif module not in ("attention.self.key", "attention.self.value"):
            renamed[f"{prefix}{_OURS[module]}.{kind}" if module in _OURS else name] = tensor
    return renamed


def _modern(name: str) -> str:
    stem, _, last = name.rpartition(".")
    return f"{stem}.{_OLD_NORM_NAMES[last]}" if last in _OLD_NORM_NAMES else name


def renamed(name: str, layer: re.Pattern[str], form: str, modules: Mapping[str, str]) -> str | None:
    """The name of a layer's tensor in another architecture, whose modules are these; None where `layer`, a pattern of
    prefix, number, module and kind, does not match. `form` has a place for each of the four."""
    if (found := layer.fullmatch(name)) is None:
        return None
    prefix, index, module, kind = found.groups()
    return form.format(prefix, index, modules.get(module, module), kind)
