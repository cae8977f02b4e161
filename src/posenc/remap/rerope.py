"""ReRoPE and Leaky ReRoPE: distances above w stop growing, or grow more slowly (Su 2023, kexue.fm/archives/9708).

    ReRoPE         distance used = min(d, w)
    Leaky ReRoPE   distance used = d for d < w, and w + (d − w)/k beyond

ReRoPE leaves far keys unrotated, and queries that meet them stand at w. Leaky ReRoPE rotates them with frequencies
θ/k, queries at p + w·(k − 1) and keys at p.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, final

import torch
from torch import Tensor

from posenc.arguments import at_least_one
from posenc.encodings.placed import RemappedPart
from posenc.encodings.rotary import Rotary
from posenc.errors import InvalidArgument
from posenc.remap.remap import At, Remap
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Scaling, exact, fixed, rounded


@final
class ReRoPE(Remap):
    """Distances up to ``window`` as they are, and all others equal to it; a cache keeps raw keys.

    The author's code multiplies queries by max(1, ln(p + 1)/ln L) besides, L the trained length: that is
    ``stack(rerope(…), query-scale(…))`` here.

    Args:
        rotary: the model's.
        window: w, the largest distance; below the trained length.
    """

    name: ClassVar[str] = "rerope"
    relative = True

    def __init__(self, rotary: Rotary, window: int) -> None:
        super().__init__(rotary)
        at_least_one(window=window)
        self.window = window

    def parts(self, q: Tensor, k: Tensor, at: At) -> tuple[RemappedPart, ...]:
        edge = q - self.window + 1
        # Position 0 changes nothing but by YaRN's factor.
        unrotated = None if self.rotary.attention_factor == 1.0 else at(torch.zeros_like(k))
        far = RemappedPart(at(torch.full_like(q, self.window)), unrotated, None, edge)
        return RemappedPart(at(q), at(k), edge), far

    def longest(self, trained: int) -> float:
        return math.inf if self.window < trained else 0


@dataclass(frozen=True)
class _Slowed(Scaling):
    """The frequencies of another scaling over k."""

    scaling: Scaling
    k: int

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        fast = self.scaling.frequencies(rotary_dim, base)
        slow = tuple(frequency / Decimal(self.k) for frequency in fast.exact)
        return Frequencies(slow, rounded(slow), fast.attention_factor)


@final
class LeakyReRoPE(Remap):
    """Distances below ``window`` as they are, and beyond it ``slope`` of each further step; a cache keeps raw keys.

    The author's code multiplies queries as it does for ReRoPE.

    Args:
        rotary: the model's.
        window: w.
        slope: 1/k for a whole number k, so that all positions are whole.
    """

    name: ClassVar[str] = "leaky-rerope"
    relative = True

    def __init__(self, rotary: Rotary, window: int, slope: float) -> None:
        super().__init__(rotary)
        at_least_one(window=window)
        self.window, self.slope, self.k = window, slope, round(1 / slope) if 0 < slope <= 1 else 0
        if abs(slope * self.k - 1) > 1e-9:
            raise InvalidArgument(f"slope={slope} must be one over a whole number, such as 1/{self.k or 8}")
        self.position_limit = rotary.position_limit - window * (self.k - 1)
        self.slow = rotary.with_settings(scaling=_Slowed(fixed(rotary.scaling), self.k))

    def parts(self, q: Tensor, k: Tensor, at: At) -> tuple[RemappedPart, ...]:
        edge, moved = q - self.window + 1, q + self.window * (self.k - 1)
        return RemappedPart(at(q), at(k), edge), RemappedPart(at(moved, self.slow), at(k, self.slow), None, edge)

    def longest(self, trained: int) -> float:
        w = self.window
        # The largest distance of T tokens is w + (T − 1 − w)/k once T > w.
        return 0 if trained < w else max(w, w + 1 + (trained - 1 - w) * self.k)
