"""The Transformer encoder: layers with the normalisation after each block, as in the original."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from bertcore.model.attention import SelfAttention, selected
from bertcore.model.config import BertConfig
from bertcore.model.dropout import dropout
from bertcore.model.layout import Layout


class EncoderLayer(nn.Module):
    """(T, H) -> (T, H): self-attention, then a feed-forward network, each added to its input and normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.output_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dropout_prob = config.hidden_dropout_prob

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        """With `rows`, the result is of these tokens only: (T, H), (R,) -> (R, H)."""
        attended = self.attention(hidden, layout, rows)
        hidden = self.attention_norm(self._added(selected(hidden, rows), attended))
        transformed = self.output(self.activation(self.intermediate(hidden)))
        return self.output_norm(self._added(hidden, transformed))

    def _added(self, hidden: Tensor, values: Tensor) -> Tensor:
        # In the type of `hidden`, float32 under autocast: sums of mixed types are slow on the CPU.
        return hidden + dropout(values, self.dropout_prob, self.training).to(hidden.dtype)


class BertEncoder(nn.Module):
    """(T, H) -> (T, H) through all layers.

    With `activation_checkpointing` set to True the backward pass computes each layer's activations again instead of
    keeping them: less memory, about a third more time, the same numbers.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.activation_checkpointing = False

    def compile_layers(self) -> None:
        """`torch.compile` every layer by itself: all share one compiled function, whatever the lengths."""
        # A graph each for training or not, full or padded, all tokens or some: all that torch allows by default.
        torch._dynamo.config.recompile_limit = 32
        for layer in self.layer:
            layer.compile(dynamic=True)

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        """With `rows`, the result is of these tokens only: (T, H), (R,) -> (R, H).

        The last layer then computes just them: most of its products are for tokens whose states nobody reads.
        """
        last = len(self.layer) - 1
        for index, layer in enumerate(self.layer):
            wanted = rows if index == last else None
            if self.activation_checkpointing and self.training:
                hidden = checkpoint(layer, hidden, layout, wanted, use_reentrant=False)
            else:
                hidden = layer(hidden, layout, wanted)
        return hidden


def _gelu_tanh(values: Tensor) -> Tensor:
    return functional.gelu(values, approximate="tanh")


# `config.hidden_act` -> function; the names are Hugging Face's.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": functional.relu,
}
