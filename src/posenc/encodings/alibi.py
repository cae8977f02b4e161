"""ALiBi: a penalty on scores that grows with distance (Press et al. 2022, section 3; arXiv 2108.12409).

    score(q, k) = q·k/√D − m_h·|p_k − p_q|

Slopes m_h are fixed. For n = 2^j heads m_h = 2^(−8h/n), h = 1…n, one geometric series; any other n takes, as
the authors' code does, the slopes of the largest power of two n₀ ≤ n and then the 1st, 3rd, 5th … slope of
2n₀. The bias is added after the 1/√D scaling, is 0 at distance 0, negative away from it, and the same to both
sides: a two-sided model never rewards the future. The causal mask is attention's business, not ALiBi's.
"""

from typing import ClassVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.encodings.bias import DistanceBias, PlacedBias
from posenc.encodings.encoding import Encoding, KeyPositions, Placed, Positions
from posenc.errors import InvalidArgument
from posenc.positions import LIMIT


def slopes(heads: int, max_exponent: float = 8.0) -> list[float]:
    """m_h for every head, in float64; ``max_exponent`` is 8 in the paper."""
    if heads < 1:
        raise InvalidArgument(f"heads={heads} must be at least 1")
    if not 0 < max_exponent < 100:
        raise InvalidArgument(f"max_exponent={max_exponent} must lie between 0 and 100; the paper has 8")
    power = 1 << (heads.bit_length() - 1)
    series = [2.0 ** (-max_exponent * h / power) for h in range(1, power + 1)]
    finer = [2.0 ** (-max_exponent * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return series + finer[: heads - power]


class LinearBias(DistanceBias):
    """−m_h·|offset| in the slopes' type: in float32 exact for every distance below 2^24."""

    def __init__(self, slopes: Float[Tensor, " H"]) -> None:
        self.slopes = slopes
        self.heads = slopes.shape[0]

    def __call__(self, offsets: Int[Tensor, "*shape"]) -> Float[Tensor, "H *shape"]:
        distance = offsets.abs().to(self.slopes.dtype)
        return -self.slopes.view(-1, *[1] * offsets.dim()) * distance

    def nearer(
        self, offsets: Int[Tensor, "*shape"], visible: Bool[Tensor, "*mask"] | None
    ) -> Int[Tensor, "*shape2"]:
        """Distances beyond the nearest visible key's."""
        distance = offsets.abs()
        if distance.shape[-1] == 0:
            return distance
        seen = distance if visible is None else distance.masked_fill(~visible, LIMIT)
        return distance - seen.amin(-1, keepdim=True)


class PlacedALiBi(Placed):
    """Positions, and the bias that reads their offsets."""

    def __init__(self, q_positions: Positions, k_positions: KeyPositions, bias: DistanceBias) -> None:
        super().__init__(q_positions, k_positions)
        self.bias = PlacedBias(bias, q_positions, k_positions)


def alibi_bias(heads: int, length: int) -> Float[Tensor, "H T T"]:
    """The whole two-sided bias as one tensor, to look at. ``posenc.attention`` never builds it."""
    offsets = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    return LinearBias(torch.tensor(slopes(heads)))(offsets)


@final
class ALiBi(Encoding):
    """Adds −m_h·|distance| to the scores; no parameters, no largest position.

    Args:
        heads: H, query heads; any count.
        max_exponent: the smallest slope of a power-of-two head count is 2^(−max_exponent); 8 in the paper.
    """

    name: ClassVar[str] = "alibi"
    doors: ClassVar[tuple[str, ...]] = ("bias",)
    relative: ClassVar[bool] = True

    slope_bits: Tensor

    def __init__(self, heads: int, *, max_exponent: float = 8.0) -> None:
        super().__init__()
        self.heads = heads
        self.max_exponent = max_exponent
        # float32 whatever the module is cast to: the bits travel as integers.
        self.register_buffer(
            "slope_bits", torch.empty(len(slopes(heads, max_exponent)), dtype=torch.int32), persistent=False
        )
        self.reset_parameters()

    @property
    def slopes(self) -> Float[Tensor, " H"]:
        """m_h in float32."""
        return self.slope_bits.view(torch.float32)

    def reset_parameters(self) -> None:
        values = torch.tensor(slopes(self.heads, self.max_exponent), dtype=torch.float32, device="cpu")
        self.slope_bits.copy_(values.view(torch.int32))

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        values = self.slopes
        if dtype == torch.float64:
            values = torch.tensor(slopes(self.heads, self.max_exponent), dtype=dtype, device=values.device)
        return PlacedALiBi(q_positions, k_positions, LinearBias(values))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, max_exponent={self.max_exponent:g}"
