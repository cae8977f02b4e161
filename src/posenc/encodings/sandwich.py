"""Sandwich: ALiBi's place taken by what sinusoidal positions have in common (Chi et al. 2023; 2212.10356).

    score(q, k) = q·k/√D + H/(8h)·( Σ_i cos(n·base^(−2i/C)) − C/2 ),   h = 1 … H

n is the distance |p_k − p_q|, C the channels of the sinusoids, i runs over C/2 numbers from ``first`` on. The sum
is the product of two sinusoidal positions, at most C/2, at distance 0; C/2 is taken off so that the bias is a
penalty, which softmax does not see. It falls roughly with the logarithm of the distance, and ripples.

The paper's sum starts at i = 1, as NeMo's code does; attention-gym's starts at 0: at distance 1 with C = 64 one has
−0.623 and the other −1.083 before the heads' factor.
"""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.arguments import Size, even_from, such_that
from posenc.clock import Clock
from posenc.encodings.bias import Bias, consecutive, heads_second
from posenc.encodings.encoding import Encoding
from posenc.encodings.offset_bias import OffsetBias
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.encodings.wide import product, widest
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Base, falling


def sandwich_frequencies(channels: int, base: float, first: int) -> Frequencies:
    """base^(−2i/C) for C/2 numbers i from ``first`` on."""
    frequencies = falling(base, range(2 * first, 2 * first + channels, 2), channels)
    return Frequencies(frequencies, tuple(float(frequency) for frequency in frequencies))


class SandwichBias(Bias):
    """Where positions lie anywhere: sums of cosines as products of the sinusoids of queries and of keys."""

    indexed_by: ClassVar[dict[str, str]] = {"factors": "h", "q": "bq·", "k": "bk·"}

    def __init__(
        self, factors: Float[Tensor, " H"], q: Float[Tensor, "*B T C"], k: Float[Tensor, "*B2 S C"]
    ) -> None:
        self.factors, self.heads, self.q, self.k = factors, len(factors), q, k

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        sums = product(self.q[..., first:last, :], self.k[..., start:keys, :].mT)
        return heads_second(scaled(self.factors, sums - self.q.shape[-1] / 2))


def scaled(factors: Float[Tensor, " H"], sums: Float[Tensor, "*shape"]) -> Float[Tensor, "H *shape"]:
    """The bias of every head from the sums of cosines, at most 0."""
    return factors.view(-1, *[1] * sums.dim()) * sums.to(factors.dtype)


class SumsOfCosines(OffsetBias):
    """The bias at every offset from the sums of cosines at every distance, at most 0."""

    factors: Tensor
    sums: Tensor

    def values(self, offsets: Int[Tensor, "*shape"]) -> Float[Tensor, "H *shape"]:
        return scaled(self.factors, self.sums[offsets.abs()])


Channels = Annotated[int, even_from(2, "attention-gym has 128")]
First = Annotated[int, such_that(lambda i: i in (0, 1), "be 1, as in the paper, or 0, as in attention-gym")]


@final
class Sandwich(Encoding):
    """Adds the product of two sinusoidal positions to the scores; no parameters, no largest position.

    Args:
        heads: H, query heads.
        channels: C, of the sinusoids; even. 128 in attention-gym; NeMo has the model's head_dim.
        base: 10000 in the paper.
        first: where the sum starts, 1 (paper, NeMo) or 0 (attention-gym).
    """

    name: ClassVar[str] = "sandwich"
    acts_on = ("bias",)
    relative = True

    def __init__(self, heads: Size, *, channels: Channels = 128, base: Base = 10_000.0, first: First = 1) -> None:
        super().__init__()
        self.heads, self.channels, self.base, self.first = heads, channels, base, first
        self.clock = Clock(sandwich_frequencies(channels, base, first))

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        wide, device = widest(k_positions.device), k_positions.device
        heads = torch.arange(1, self.heads + 1, device=device)
        factors = (self.heads / (8 * heads.to(wide))).to(torch.promote_types(dtype, torch.float32))
        if not consecutive(q_positions, k_positions):
            # From the first key on: only distances count, and near ones are more exact.
            q, k = (torch.cat(self.clock(at - k_positions[..., :1], wide), -1) for at in (q_positions, k_positions))
            return Placed(q_positions, k_positions, bias=SandwichBias(factors, q, k))
        sums = self.clock(torch.arange(k_positions.shape[-1], device=device), wide)[0].sum(-1)
        at_most_0 = sums - self.channels / 2
        bias = SumsOfCosines(self.heads, q_positions, k_positions, factors=factors, sums=at_most_0)
        return Placed(q_positions, k_positions, bias=bias)
