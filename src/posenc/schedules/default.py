"""Default: the unscaled ladder θ_i = base^(−2i/d) (Su et al. 2021, RoFormer, section 3.2.2; arXiv 2104.09864)."""

from dataclasses import dataclass

from posenc.schedules.schedule import Schedule, check_ladder, ladder, ladder_float32
from posenc.schedules.spectrum import Spectrum


@dataclass(frozen=True)
class Default(Schedule):
    """θ_i = base^(−2i/d), nothing scaled; attention factor 1."""

    def spectrum(self, rotary_dim: int, base: float) -> Spectrum:
        check_ladder(rotary_dim, base)
        return Spectrum(ladder(rotary_dim, base), tuple(ladder_float32(rotary_dim, base).tolist()))
