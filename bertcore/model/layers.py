"""The stack of an encoder's layers, whatever a layer is."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from bertcore.model.attention import SelfAttention
from bertcore.model.layout import Layout


class EncoderLayer(nn.Module):
    """(T, H) -> (T, H): self-attention, then a feed-forward network. With `rows`, flat positions (R,), the result is
    of these tokens only: (R, H)."""

    fused: ClassVar[Mapping[str, int]] = {}
    """Parameters that are several matrices, one above the other, and how many: an optimizer that looks at a matrix as a
    whole must see them apart, as in a model that keeps them apart."""
    attention: SelfAttention

    def attention_input(self, hidden: Tensor) -> Tensor:
        """What `attention` is given where the layer is given `hidden`."""
        return hidden


class LayerStack(nn.Module):
    """(T, H) -> (T, H) through all layers, each of them once, or where `order` is given in that order.

    With `activation_checkpointing` set to True the backward pass computes each layer's activations again instead of
    keeping them: less memory, about a third more time, the same numbers.
    """

    def __init__(self, layers: list[EncoderLayer], order: Sequence[int] | None = None) -> None:
        super().__init__()
        self.layer = nn.ModuleList(layers)
        self._order = list(range(len(layers)) if order is None else order)
        self.activation_checkpointing = False

    @property
    def passes(self) -> list[EncoderLayer]:
        """The layers in the order in which they are passed through; a shared one several times."""
        layers: list[EncoderLayer] = list(self.layer.children())  # type: ignore[arg-type]
        return [layers[place] for place in self._order]

    def compile_layers(self) -> None:
        """`torch.compile` every layer by itself: all share one compiled function, whatever the lengths."""
        # A graph each for training or not, full or padded, all tokens or some: all that torch allows by default.
        torch._dynamo.config.recompile_limit = 32
        torch._dynamo.config.optimize_ddp = False  # it would cut the layers, which are parts already
        for layer in self.layer:
            layer.compile(dynamic=True)

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        """With `rows`, the result is of these tokens only: (T, H), (R,) -> (R, H).

        The last layer then computes just them: most of its products are for tokens whose states nobody reads.
        """
        passes = self.passes
        last = len(passes) - 1
        for index, layer in enumerate(passes):
            wanted = rows if index == last else None
            if self.activation_checkpointing and self.training:
                hidden = checkpoint(layer, hidden, layout, wanted, use_reentrant=False)
            else:
                hidden = layer(hidden, layout, wanted)
        return hidden


def layer_stacks(module: nn.Module) -> list[LayerStack]:
    """All in `module`: an objective may hold further models."""
    return [each for each in module.modules() if isinstance(each, LayerStack)]


def _gelu_tanh(values: Tensor) -> Tensor:
    return functional.gelu(values, approximate="tanh")


# `hidden_act` of a config, or what a head has -> function; the names are Hugging Face's.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": functional.relu,
    "tanh": torch.tanh,
}
