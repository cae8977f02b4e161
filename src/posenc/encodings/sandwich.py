"""Sandwich adds a bias that resembles ALiBi's. The bias is computed from dot products of sinusoidal position
vectors (Chi et al. 2023, arXiv 2212.10356).

    score(q, k) = q·k/√D + H/(8h)·( Σ_i cos(n·base^(−2i/C)) − C/2 ),   h = 1 … H

n is the distance |p_k − p_q|, C is the number of channels of the sinusoids, and i takes C/2 values, starting at
``first``. The sum is the dot product of two sinusoidal position vectors, and its maximum is C/2, at distance 0.
Subtracting C/2 makes the bias a penalty; softmax ignores the shift. The bias decreases roughly with the logarithm
of the distance, but not monotonically.

The sum starts at i = 1 in the paper and in NeMo, and at i = 0 in attention-gym. For C = 64, the bias at distance 1,
without the head's factor, is −0.623 in the paper and −1.083 in attention-gym.
"""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.arguments import Size, even_from, such_that
from posenc.clock import Clock
from posenc.encodings.bias import Bias, batch_first, consecutive
from posenc.encodings.encoding import Encoding
from posenc.encodings.offset_bias import OffsetBias
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.wide import product, widest
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Base, falling


class CosineSums(OffsetBias):
    """The bias for positions that count up by one, from the sum of cosines at every distance (``sums``)."""

    factors: Tensor
    sums: Tensor
    channels: int

    def values(self, offsets: Int[Tensor, "*shape"]) -> Float[Tensor, "H *shape"]:
        return scaled(self.factors, self.sums[offsets.abs()], self.channels)


class SandwichBias(Bias):
    """The bias for any positions. Every sum of cosines is the dot product of the sinusoids at a query and at a key.

    Args:
        factors: the factor H/(8h) of every head h = 1 … H.
        q_waves, k_waves: the sinusoids (cosines, then sines) at the positions of queries and of keys.
    """

    indexed_by: ClassVar[dict[str, str]] = {"factors": "h", "q_waves": "bq·", "k_waves": "bk·"}

    def __init__(
        self,
        factors: Float[Tensor, " H"],
        q_waves: Float[Tensor, "*B T C"],
        k_waves: Float[Tensor, "*B2 S C"],
    ) -> None:
        self.factors, self.heads, self.q_waves, self.k_waves = factors, len(factors), q_waves, k_waves

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        sums = product(self.q_waves[..., first:last, :], self.k_waves[..., start:keys, :].mT)
        return batch_first(scaled(self.factors, sums, self.k_waves.shape[-1]))


def scaled(factors: Float[Tensor, " H"], sums: Float[Tensor, "*shape"], channels: int) -> Float[Tensor, "H *shape"]:
    """Return the bias of every head: the sums of cosines minus C/2, all times the head's factor."""
    return factors.view(-1, *[1] * sums.dim()) * (sums - channels / 2).to(factors.dtype)


@final
class Sandwich(Encoding):
    """Adds the dot product of two sinusoidal position vectors to the scores. Has no parameters and no maximum
    position.

    Args:
        heads: H, query heads.
        channels: C, channels of the sinusoids, an even number. 128 in attention-gym, the model's head_dim in NeMo.
        base: the base of the frequencies; 10000 in the paper.
        first: the index of the first frequency: 1 in the paper and NeMo, 0 in attention-gym.
    """

    name: ClassVar[str] = "sandwich"
    acts_on = ("bias",)
    relative = True

    def __init__(
        self,
        heads: Size,
        *,
        channels: Annotated[int, even_from(2, "attention-gym uses 128")] = 128,
        base: Base = 10_000.0,
        first: Annotated[
            int, such_that(lambda i: i in (0, 1), "be 1, as in the paper, or 0, as in attention-gym")
        ] = 1,
    ) -> None:
        super().__init__()
        self.heads, self.channels, self.base, self.first = heads, channels, base, first
        frequencies = falling(base, range(2 * first, 2 * first + channels, 2), channels)
        self.clock = Clock(Frequencies(frequencies, tuple(map(float, frequencies))))

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        compute_dtype, device = widest(k_positions.device), k_positions.device
        heads = torch.arange(1, self.heads + 1, device=device)
        factors = (self.heads / (8 * heads.to(compute_dtype))).to(dtype)
        # Positions are counted from the first key, or from 0 if there are no keys: only distances matter, and
        # errors grow with the position.
        first, same = k_positions[..., :1].sum(-1, keepdim=True), q_positions is k_positions
        k_waves = self.clock(k_positions - first, compute_dtype)
        if consecutive(q_positions, k_positions):
            sums = k_waves[0].sum(-1)
            bias: Bias = CosineSums(
                self.heads, q_positions, k_positions, factors=factors, sums=sums, channels=self.channels
            )
        else:
            q_waves = k_waves if same else self.clock(q_positions - first, compute_dtype)
            bias = SandwichBias(factors, torch.cat(q_waves, -1), torch.cat(k_waves, -1))
        return Placed(q_positions, k_positions, bias=bias)
