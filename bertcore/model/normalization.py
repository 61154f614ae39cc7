"""Layer normalisation that adds its gradients up in the type of its weights."""

from torch import Tensor, nn


class LayerNorm(nn.LayerNorm):
    """(..., H) -> (..., H), in the type of its weights, as autocast itself does it on a GPU.

    Under autocast on a CPU what comes from a linear layer has 16 bits, and PyTorch (2.13) would add the gradients of
    weight and bias up in 16 bits as well: over 4,096 rows a bias gets a quarter of its gradient.
    """

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.to(self.weight.dtype))
