"""An encoder that is only read from, with its layers' weights rounded and laid out once for the processor's products.

Under autocast every matrix product in bfloat16 on the CPU begins with rounding its weights and laying them out in the
blocks that the kernel reads. For one short text that takes longer than the product itself.
"""

import torch
from torch import Tensor, nn

from bertcore.model.layers import layer_stacks
from bertcore.precision import precision

_ROWS = 16
"""For which the weights are laid out; the layout serves any number."""


class PackedLinear(nn.Module):
    """(..., in) -> (..., out) in bfloat16: the numbers of an `nn.Linear` under autocast; without gradients."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().bfloat16(), _ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach().bfloat16()

    def forward(self, values: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(values.bfloat16(), self.weight, self.bias, "none", [], "")
        return product


def pack(model: nn.Module) -> None:
    """Pack the layers of `model`, which is only asked from now on, under autocast.

    Nothing is done on a GPU, in float32, or where this build of torch has no such products for this processor.
    """
    rounded = next(model.parameters()).device.type == "cpu" and precision() == "bf16"
    if not (rounded and torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        return
    for stack in layer_stacks(model):
        for module in list(stack.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(module, name, PackedLinear(child))
