"""The default scaling leaves frequencies unscaled: θ_i = base^(−2i/d) (Su et al. 2021, RoFormer, section 3.2.2;
arXiv 2104.09864).
"""

from dataclasses import dataclass

from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Scaling, exact, unscaled_float32, unscaled_frequencies


@dataclass(frozen=True)
class Default(Scaling):
    """Frequencies θ_i = base^(−2i/d) without scaling. The attention factor is 1."""

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        return Frequencies(
            unscaled_frequencies(rotary_dim, base), tuple(unscaled_float32(rotary_dim, base).tolist())
        )
