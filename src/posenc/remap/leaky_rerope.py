"""Leaky ReRoPE: distances above w grow more slowly (Su 2023, kexue.fm/archives/9708).

    distance used = d             where d < w
                    w + (d − w)/k where d ≥ w

Far queries and keys rotate with frequencies θ/k, queries at p + w·(k − 1) and keys at p.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, final

from torch import Tensor

from posenc.encodings.rotary import Rotary
from posenc.errors import InvalidArgument
from posenc.remap.remap import Part, Remap
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Scaling, exact, rounded


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
    """Distances below ``window`` as they are, and beyond it ``slope`` of every further step; a cache keeps raw keys.

    The author's code multiplies queries by max(1, ln(p + 1)/ln L) besides, L the trained length: that is
    ``stack(leaky-rerope(…), query-scale(…))`` here.

    Args:
        rotary: the model's.
        window: w.
        slope: 1/k for a whole number k, so that all positions are whole.
    """

    name: ClassVar[str] = "leaky-rerope"
    relative = True
    window: int

    def __init__(self, rotary: Rotary, window: int, slope: float) -> None:
        super().__init__(rotary, window=window)
        steps = round(1 / slope) if 0 < slope <= 1 else 0
        if not steps or abs(slope * steps - 1) > 1e-9:
            raise InvalidArgument(f"slope={slope} must be one over a whole number, such as 1/{steps or 8}")
        self.slope, self.steps = slope, steps
        self.position_limit = rotary.position_limit - self.window * (steps - 1)
        self.slow = rotary.with_settings(scaling=_Slowed(rotary.scaling, steps), softmax_factor=rotary.softmax_factor)

    def parts(self, q: Tensor, k: Tensor) -> tuple[Part, ...]:
        edge = q - self.window + 1
        return Part(q, k, edge), Part(q + self.window * (self.steps - 1), k, None, edge, self.slow)

    def longest(self, trained: int) -> float:
        # The largest distance of T tokens is w + (T − 1 − w)/k, once T > w, and below ``trained``.
        return 0 if self.window > trained else self.window + (trained - self.window) * self.steps
