"""The names of ModernBERT's encoder parameters here and in Hugging Face's ModernBERT; those of heads are the same."""

import re
from collections.abc import Mapping

from torch import Tensor

# A module of an encoder layer: ours -> theirs.
_LAYER_MODULES = {
    "attention_norm": "attn_norm",
    "attention.qkv": "attn.Wqkv",
    "attention.output": "attn.Wo",
    "output_norm": "mlp_norm",
    "intermediate": "mlp.Wi",
    "output": "mlp.Wo",
}
_OURS = re.compile(r"((?:model\.)?)encoder\.layer\.(\d+)\.(.+)\.weight")
_THEIRS = re.compile(r"((?:model\.)?)layers\.(\d+)\.(.+)\.weight")


def to_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    def theirs(name: str) -> str:
        found = _OURS.fullmatch(name)
        return f"{found[1]}layers.{found[2]}.{_LAYER_MODULES[found[3]]}.weight" if found else name

    return {theirs(name): tensor for name, tensor in state.items()}


def from_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    modules = {theirs: ours for ours, theirs in _LAYER_MODULES.items()}

    def ours(name: str) -> str:
        found = _THEIRS.fullmatch(name)
        return f"{found[1]}encoder.layer.{found[2]}.{modules.get(found[3], found[3])}.weight" if found else name

    return {ours(name): tensor for name, tensor in state.items()}
