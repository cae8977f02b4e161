"""The wavelengths of pairs, the number of pairs that complete a turn within a length, and the factors by which a
scaling slows pairs.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.scaling.default import Default
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Scaling


def wavelengths(pairs: Frequencies) -> Float[Tensor, " pairs"]:
    """Return the wavelengths 2π/θ_i in positions, or NaN for a pair that does not rotate, because plots with a
    logarithmic axis cannot show infinity.
    """
    return 2 * math.pi / torch.tensor([float(f) if f else math.nan for f in pairs.exact], dtype=torch.float64)


def turns(pairs: Frequencies, length: int) -> int:
    """Return the number of pairs that complete a turn within ``length`` positions."""
    return int((wavelengths(pairs) <= length).sum())


def slowing(scaling: Scaling, rotary_dim: int, base: float) -> list[float]:
    """Return the factor by which each pair is slowed, or infinity for a pair that does not rotate."""
    plain, scaled = (s.frequencies(rotary_dim, base).exact for s in (Default(), scaling))
    return [float(p / s) if s else math.inf for p, s in zip(plain, scaled, strict=True)]
