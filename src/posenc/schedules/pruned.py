"""Pruned: pairs too slow to turn once within the trained length stand still (Chen et al. 2024, arXiv 2410.21216).

    θ_i = b^(−2i/D) where that is at least 2π/L, else 0

so that no pair meets an angle past the trained length that it has not seen within it.
"""

from dataclasses import dataclass
from decimal import Decimal

from posenc.schedules.checks import check_original_length, make_plain
from posenc.schedules.default import Default
from posenc.schedules.schedule import TWO_PI, Schedule, exact
from posenc.schedules.spectrum import Spectrum


@dataclass(frozen=True)
class Pruned(Schedule):
    """The plain ladder without what does not turn once in L.

    Args:
        original_length: L, the trained length in tokens.
    """

    original_length: int

    def __post_init__(self) -> None:
        make_plain(self)
        check_original_length(self.original_length)

    @exact
    def spectrum(self, rotary_dim: int, base: float) -> Spectrum:
        plain = Default().spectrum(rotary_dim, base)
        slowest = TWO_PI / self.original_length
        turning = [theta >= slowest for theta in plain.frequencies]
        return Spectrum(
            tuple(theta if kept else Decimal(0) for theta, kept in zip(plain.frequencies, turning, strict=True)),
            tuple(theta if kept else 0.0 for theta, kept in zip(plain.float32, turning, strict=True)),
        )
