"""Multi-head self-attention over sequences that lie end to end; no token attends to another sequence."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.model.config import BertConfig
from bertcore.model.layout import Layout

try:
    from torch.nn.attention import varlen
except ImportError:  # torch before 2.10
    varlen = None  # type: ignore[assignment]


class SelfAttention(nn.Module):
    """(T, H) -> (T, H), output projection included. Query, key and value come from one matrix, in one product."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.dropout_prob = config.attention_probs_dropout_prob
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        qkv = self.qkv(hidden).unflatten(-1, (3, self.num_heads, -1))  # (T, 3, A, D)
        dropout = self.dropout_prob if self.training else 0.0
        attend = choose(qkv, layout, dropout)
        return self.output(attend(qkv, layout, dropout).flatten(1))


def choose(qkv: Tensor, layout: Layout, dropout: float) -> "Attend":
    """The fastest way that applies. All give the same numbers, up to rounding, and compute the same function."""
    if dropout > 0.0:
        return attend_padded  # the other two: not offered by the kernel, and slower on the CPU
    if varlen is not None and qkv.is_cuda and qkv.dtype in (torch.float16, torch.bfloat16):
        return attend_variable
    if qkv.device.type == "cpu" and not layout.is_full and not torch.compiler.is_compiling():
        return attend_each
    return attend_padded


def attend_variable(qkv: Tensor, layout: Layout, dropout: float) -> Tensor:
    """(T, 3, A, D) -> (T, A, D) by torch's variable-length Flash Attention."""
    query, key, value = qkv.unbind(1)
    ends, longest = layout.cumulative, layout.max_length
    context: Tensor = varlen.varlen_attn(query, key, value, ends, ends, longest, longest)  # type: ignore[assignment]
    return context


def attend_each(qkv: Tensor, layout: Layout, dropout: float) -> Tensor:
    """(T, 3, A, D) -> (T, A, D) by one call per sequence: nothing is padded, nothing is masked.

    On the CPU it makes a whole training step 0.94 (84 % real tokens, length 128) to 0.88 (78 %, length 512) of the time
    of the padded one, in float32; 1.01 where all lengths are equal. Two or four groups sorted by length were slower.
    """
    lengths = layout.lengths.tolist()
    query, key, value = (part.split(lengths, dim=2) for part in qkv.permute(1, 2, 0, 3)[:, None])  # each (1, A, L, D)
    contexts = [
        functional.scaled_dot_product_attention(*parts, dropout_p=dropout)
        for parts in zip(query, key, value, strict=True)
    ]
    return torch.cat(contexts, dim=2)[0].transpose(0, 1)


def attend_padded(qkv: Tensor, layout: Layout, dropout: float) -> Tensor:
    """(T, 3, A, D) -> (T, A, D) on any device, also compiled: only here the sequences are padded to the longest."""
    batch, longest = layout.batch_size, layout.max_length
    if layout.is_full:
        padded, key_mask = qkv, None
    else:
        empty = qkv.new_zeros(batch * longest, *qkv.shape[1:])
        padded, key_mask = empty.index_copy(0, layout.padded_index, qkv), layout.key_mask()[:, None, None, :]
    query, key, value = padded.unflatten(0, (batch, longest)).permute(2, 0, 3, 1, 4)  # each (B, A, L, D)
    context = functional.scaled_dot_product_attention(query, key, value, attn_mask=key_mask, dropout_p=dropout)
    context = context.transpose(1, 2).flatten(0, 1)  # (B * L, A, D)
    return context if layout.is_full else context.index_select(0, layout.padded_index)


Attend = Callable[[Tensor, Layout, float], Tensor]
