"""How attention sees where tokens stand: queries and keys turned by their positions, and windows around a token.

Rotary positions (Su et al. 2021): each pair of numbers of a query or key, one of its first half and one of its second,
is turned by an angle in proportion to the token's place, so that a product depends on the distance of two tokens.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

_SHORTEST_TABLE = 128


@dataclass(frozen=True, kw_only=True)
class Positions:
    """By default attention knows nothing of positions."""

    theta: float | None = None
    """Base of the angles; None = nothing is turned."""
    reach: int | None = None
    """Tokens that a token sees on either side of itself; None = the whole sequence."""
    causal: bool = False
    """Whether a token sees none of those behind it."""

    def hides(self, longest: int) -> bool:
        """Whether some token of a sequence of `longest` does not see some other one."""
        return longest > 1 and (self.causal or (self.reach is not None and longest - 1 > self.reach))

    def hidden(self, longest: int, lengths: Tensor) -> Tensor:
        """(N, 1, L, L) bool for sequences of (N,) lengths: True where a query does not see a key.

        Padding sees what the last token sees: a query that sees nothing would give NaN, in the gradient too.
        """
        place = torch.arange(longest, device=lengths.device)
        queries = torch.minimum(place, lengths[:, None] - 1)
        return self.far((place - queries[:, :, None])[:, None])

    def far(self, distances: Tensor) -> Tensor:
        """Distances from a query to keys, in tokens, negative before it -> True where it does not see them."""
        behind = (distances > 0) & self.causal
        return behind if self.reach is None else behind | (distances.abs() > self.reach)


PLAIN = Positions()


def far_pairs(longest: int, positions: Positions) -> Tensor:
    """(L, L) bool on the CPU: True where a query does not see a key. The same array every time."""
    return _far_pairs(max(_SHORTEST_TABLE, 1 << (longest - 1).bit_length()), positions)[:longest, :longest]


@lru_cache(maxsize=16)
def _far_pairs(length: int, positions: Positions) -> Tensor:
    place = torch.arange(length)
    return positions.far(place - place[:, None])


def turned(values: Tensor, longest: int, positions: Positions, *, back: bool = False) -> Tensor:
    """(..., L, D) -> the same, each row turned by its place among the L (or `back`); itself where nothing turns."""
    if positions.theta is None:
        return values
    cos, sin = (part[:longest] for part in _table(longest, values, positions.theta))
    return _turn(values, cos, -sin if back else sin)


def turned_tokens(
    qkv: Tensor, position_ids: Tensor, longest: int, positions: Positions
) -> tuple[Tensor, Tensor, Tensor]:
    """(T, 3, A, D) -> (T, A, D) queries and keys, turned by (T,) positions below `longest`, and values as they are."""
    query, key, value = qkv.unbind(1)
    if positions.theta is None:
        return query, key, value
    cos, sin = (part[position_ids][:, None] for part in _table(longest, qkv, positions.theta))
    return _turn(query, cos, sin), _turn(key, cos, sin), value


def _turn(values: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = values.shape[-1] // 2
    swapped = torch.cat([values[..., half:], values[..., :half]], -1)
    return torch.addcmul(values * cos, swapped, sin)


def _table(longest: int, like: Tensor, theta: float) -> tuple[Tensor, Tensor]:
    # A compiled function knows no cache, and would be another one for every power of two.
    compiling = torch.compiler.is_compiling()
    length = longest if compiling else max(_SHORTEST_TABLE, 1 << (longest - 1).bit_length())
    return _tables(length, like.shape[-1], theta, like.dtype, like.device)


@lru_cache(maxsize=64)
def _tables(length: int, size: int, theta: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """(L, D) cosines, and sines whose first half is negative, of angles computed in float32."""
    with torch.inference_mode(False):  # an evaluation may ask first, and a training keeps them for its backward pass
        frequencies = 1.0 / (theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size))
        angles = torch.arange(length, dtype=torch.float32)[:, None] * frequencies
        cos, sin = angles.cos(), angles.sin()
        tables = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        return tuple(table.to(dtype).to(device) for table in tables)  # type: ignore[return-value]
