"""Llama 3.1's scaling keeps fast pairs and interpolates slow pairs, with a ramp between them (Dubey et al.
2024).

r_i = L/λ_i is the number of turns that pair i completes within the trained length:

    r_i > high: θ_i       r_i < low: θ_i / s       else: u·θ_i + (1−u)·θ_i/s,  u = (r_i − low)/(high − low)

The attention factor is 1. If low = high, as in Llama 4 Scout, the ramp is a step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import positive
from posenc.errors import InvalidArgument
from posenc.scaling.checks import Factor, Length
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.ramp import mix, turns_within
from posenc.scaling.scaling import Scaling, exact, unscaled_float32, unscaled_frequencies

Turns = Annotated[float, positive("Llama 3.1 uses 1 and 4")]


@dataclass(frozen=True)
class Llama3(Scaling):
    """Llama 3.1's ramp, which depends on the number of turns that a pair completes within the trained length.

    Args:
        factor: s ≥ 1; 8 in Llama 3.1, 32 in Llama 3.2.
        original_length: L, the trained context length in tokens; 8192 in both.
        low_freq_factor: pairs that complete fewer turns than this number are interpolated; 1 in Llama 3.1.
        high_freq_factor: pairs that complete more turns than this number keep their frequency; 4 in Llama 3.1.
    """

    factor: Factor = 8.0
    original_length: Length = 8192
    low_freq_factor: Turns = 1.0
    high_freq_factor: Turns = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low_freq_factor > self.high_freq_factor:
            raise InvalidArgument(
                f"low_freq_factor={self.low_freq_factor} must be at most "
                f"high_freq_factor={self.high_freq_factor}, because pairs with fewer turns than low_freq_factor "
                "are interpolated, and pairs with more turns than high_freq_factor are kept"
            )

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        return Frequencies(
            self.scaled(unscaled_frequencies(rotary_dim, base)),
            tuple(self._float32(unscaled_float32(rotary_dim, base)).tolist()),
        )

    @exact
    def scaled(self, frequencies: Sequence[Decimal]) -> tuple[Decimal, ...]:
        """Apply the ramp to ``frequencies``, whether they are unscaled or already scaled."""
        low, high = Decimal(self.low_freq_factor), Decimal(self.high_freq_factor)
        width = high - low or Decimal("1e-9")
        keep = [(turns_within(f, self.original_length) - low) / width for f in frequencies]
        return mix(frequencies, keep, Decimal(self.factor))

    def _float32(self, inverse: Float[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
        """Compute the ramp in float32, with the released code's order of operations."""
        low, high, length = self.low_freq_factor, self.high_freq_factor, self.original_length
        wavelength = 2 * math.pi / inverse
        scaled = torch.where(wavelength > length / low, inverse / self.factor, inverse)
        keep = (length / wavelength - low) / (high - low or 1e-9)
        between = (1 - keep) * scaled / self.factor + keep * scaled
        inside = (wavelength >= length / high) & (wavelength <= length / low)
        return torch.where(inside, between, scaled)
