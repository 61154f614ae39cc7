"""The last layer of a head, in float32 whatever type the encoder computes in."""

import torch
from torch import Tensor, nn


def scores(layer: nn.Linear, states: Tensor) -> Tensor:
    """`layer(states)` in float32. bfloat16 has 8 bits: predicted numbers between 2 and 4 would lie 1/64 apart, and
    close logits would be equal. The layer is so narrow that this costs nothing."""
    with torch.autocast(states.device.type, enabled=False):
        return layer(states.float())
