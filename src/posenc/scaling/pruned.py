"""Pruned: pairs too slow to rotate once within the trained length stand still (Chen et al. 2024, arXiv 2410.21216).

    θ_i = b^(−2i/D) where that is at least 2π/L, else 0

so that no pair meets an angle past the trained length that it has not seen within it.
"""

from dataclasses import dataclass
from decimal import Decimal

from posenc.scaling.checks import check_original_length, make_plain
from posenc.scaling.default import Default
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import TWO_PI, Scaling, exact


@dataclass(frozen=True)
class Pruned(Scaling):
    """The unscaled frequencies without those that do not rotate once in L.

    Args:
        original_length: L, the trained length in tokens.
    """

    original_length: int

    def __post_init__(self) -> None:
        make_plain(self)
        check_original_length(self.original_length)

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        plain = Default().frequencies(rotary_dim, base)
        slowest = TWO_PI / self.original_length
        rotating = [theta >= slowest for theta in plain.exact]
        return Frequencies(
            tuple(theta if rotates else Decimal(0) for theta, rotates in zip(plain.exact, rotating, strict=True)),
            tuple(theta if rotates else 0.0 for theta, rotates in zip(plain.float32, rotating, strict=True)),
        )
