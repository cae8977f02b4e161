"""Position Interpolation divides every frequency by the factor (Chen et al. 2023, arXiv 2306.15595, section
2.3).

    θ'_i = θ_i / s

Dividing frequencies by s is equivalent to dividing positions by s. No pair leaves the range of angles that the
model has seen in training, but neighbouring tokens are s times closer. Quality is lower at every length until the
model has been briefly fine-tuned.
"""

from dataclasses import dataclass
from decimal import Decimal

from posenc.scaling.checks import Factor
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Scaling, exact, unscaled_float32, unscaled_frequencies


@dataclass(frozen=True)
class Linear(Scaling):
    """Divides every frequency by the factor.

    Args:
        factor: s ≥ 1, the target length divided by the trained length.
    """

    factor: Factor

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        frequencies = tuple(f / Decimal(self.factor) for f in unscaled_frequencies(rotary_dim, base))
        return Frequencies(frequencies, tuple((unscaled_float32(rotary_dim, base) / self.factor).tolist()))
