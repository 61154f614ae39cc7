"""The names of an encoder's parameters here and in Hugging Face's files; those of most heads are the same.

A layer is `encoder.layer.N` here in every architecture. The shapes differ in one place only: query, key and value are
one matrix here, stacked in this order, and three there, but for ModernBERT.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

_OLD_NORM_NAMES = {"gamma": "weight", "beta": "bias"}  # of LayerNorm, in conversions from TensorFlow
_LAYER = "encoder.layer.{}"


@dataclass(frozen=True, kw_only=True)
class Names:
    """One architecture's. Both functions are pure: what no row names passes through them unchanged."""

    modules: Mapping[str, tuple[str, ...]]
    """A module of a layer here -> there; several are stacked here, in this order."""
    layer: str = _LAYER
    """What a layer is called there."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """A module outside of the layers here -> there."""

    def to_huggingface(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our state dict under Hugging Face's names."""
        renamed: dict[str, Tensor] = {}
        for name, tensor in state.items():
            prefix, index, module, kind = _parted(name, _LAYER)
            if (parts := self.modules.get(module)) is None:
                renamed[_exchanged(name, self.beside)] = tensor
                continue
            for part, each in zip(parts, tensor.chunk(len(parts)), strict=True):
                renamed[f"{prefix}{self.layer.format(index)}.{part}.{kind}"] = each
        return renamed

    def from_huggingface(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """And back. What is one matrix here is left out where a part of it is missing."""
        modern = {_modern(name): tensor for name, tensor in state.items()}
        ours = {part: own for own, theirs in self.modules.items() for part in theirs}
        beside = {theirs: own for own, theirs in self.beside.items()}
        renamed: dict[str, Tensor] = {}
        for name, tensor in modern.items():
            prefix, index, module, kind = _parted(name, self.layer)
            if module not in ours:
                renamed[_exchanged(name, beside)] = tensor
            elif module == (theirs := self.modules[ours[module]])[0]:
                names = [f"{prefix}{self.layer.format(index)}.{part}.{kind}" for part in theirs]
                if all(each in modern for each in names):
                    own = f"{prefix}{_LAYER.format(index)}.{ours[module]}.{kind}"
                    renamed[own] = torch.cat([modern[each] for each in names]) if len(names) > 1 else tensor
        return renamed


def _parted(name: str, layer: str) -> tuple[str, ...]:
    """What stands before the name of a layer's tensor, and its number, module and kind; empty for other names."""
    place = re.escape(layer).replace(r"\{\}", r"(\d+)")
    found = re.fullmatch(rf"((?:.*\.)?){place}\.(.+)\.(weight|bias)", name)
    return found.groups() if found else ("", "", "", "")


def _exchanged(name: str, modules: Mapping[str, str]) -> str:
    module, _, kind = name.rpartition(".")
    for one, other in modules.items():
        if f".{module}".endswith(f".{one}"):
            return f"{module.removesuffix(one)}{other}.{kind}"
    return name


def _modern(name: str) -> str:
    stem, _, last = name.rpartition(".")
    return f"{stem}.{_OLD_NORM_NAMES[last]}" if last in _OLD_NORM_NAMES else name


BERT = Names(
    modules={
        "attention.qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
        "attention.output": ("attention.output.dense",),
        "attention_norm": ("attention.output.LayerNorm",),
        "intermediate": ("intermediate.dense",),
        "output": ("output.dense",),
        "output_norm": ("output.LayerNorm",),
    }
)
