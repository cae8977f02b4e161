"""YaRN keeps fast pairs, interpolates slow pairs, and sharpens attention (Peng et al. 2023, arXiv 2309.00071).

    θ'_i = (1−g_i)·θ_i/s + g_i·θ_i,   g_i = 1 keeps a frequency, 0 interpolates it

With ``ramp="rotations"`` (the paper, section 3.2), g_i rises with r_i = L/λ_i, the turns of pair i within L tokens:

    g_i = clip((r_i − β_slow)/(β_fast − β_slow), 0, 1)

With ``ramp="dimension"`` (authors' code, Hugging Face), g_i falls with the index i of the pair:

    g_i = 1 − clip((i − low)/(high − low), 0, 1)
    low = max(⌊dim(β_fast)⌋, 0),   high = min(⌈dim(β_slow)⌉, d−1),   dim(r) = d·ln(L/2πr)/(2·ln b)

dim(r) is the index at which a pair completes r turns. The limit of high is d−1, not d/2−1. If low = high, 0.001
is added to high. Without ``truncate``, low and high are not rounded. The frequencies of the two ramps differ by
a factor of up to 3.04 (d=128, L=4096, s=16).

cos and sin are multiplied by the attention factor a = 0.1·ln s + 1, so scores are multiplied by a² and attention
becomes sharper. DeepSeek's configs also set mscale and mscale_all_dim. With these settings, the attention factor is
a = (0.1·mscale·ln s + 1)/(0.1·mscale_all_dim·ln s + 1), and the softmax scale is multiplied by
(0.1·mscale_all_dim·ln s + 1)². The last factor is the property ``softmax_factor``, which an encoding
passes to attention.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import positive
from posenc.errors import InvalidArgument
from posenc.scaling.checks import Factor, Length
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.ramp import mix, turns_within
from posenc.scaling.scaling import (
    TWO_PI,
    Scaling,
    exact,
    powers_float32,
    rounded,
    unscaled_frequencies,
)

Turns = Annotated[float, positive("the paper uses beta_fast=32 and beta_slow=1")]
Scale = Annotated[float | None, positive("omit it to use 0.1·ln(factor) + 1")]


def sharpening(factor: float, amount: float = 1.0) -> float:
    """Return YaRN's default attention factor, 0.1·amount·ln(factor) + 1, or 1 for factors up to 1."""
    return 0.1 * amount * math.log(max(factor, 1)) + 1


@dataclass(frozen=True)
class YaRN(Scaling):
    """A ramp between interpolated and kept pairs, and an attention factor.

    Args:
        factor: s ≥ 1, the target length divided by the trained length.
        original_length: L, the trained context length in tokens.
        beta_fast: a number of turns within L; pairs that complete more turns are kept; 32 in the paper. If L is
            small, this number can exceed L/2π, the number of turns that the fastest pair completes. Then
            ``ramp="dimension"`` keeps only the fastest pair, and ``ramp="rotations"`` keeps no pair; pass a smaller
            number.
        beta_slow: a number of turns within L; pairs that complete fewer turns are fully interpolated; 1 in the
            paper. With ``ramp="dimension"`` it may equal ``beta_fast``, as in Kimi K2, where both are 1; the
            ramp is then one pair wide.
        ramp: ``"dimension"`` as in the authors' code and checkpoints, ``"rotations"`` as in the paper.
        truncate: whether the ends of the dimension ramp are rounded to whole pairs; False in GPT-OSS.
        attention_factor: a; by default 0.1·ln s + 1, or the ratio from ``mscale`` and ``mscale_all_dim``.
        mscale, mscale_all_dim: the settings of DeepSeek's configs that determine a and ``softmax_factor``; pass
            both or neither, and not together with ``attention_factor``.
    """

    factor: Factor
    original_length: Length
    beta_fast: Turns = 32.0
    beta_slow: Turns = 1.0
    ramp: Literal["dimension", "rotations"] = "dimension"
    truncate: bool = True
    attention_factor: Scale = None
    mscale: Scale = None
    mscale_all_dim: Scale = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta_fast < self.beta_slow or (self.beta_fast == self.beta_slow and self.ramp == "rotations"):
            raise InvalidArgument(
                f"beta_fast={self.beta_fast} must be above beta_slow={self.beta_slow} (or equal to it with "
                "ramp='dimension'); both count turns within original_length; the paper uses 32 and 1"
            )
        if self.ramp == "rotations" and not self.truncate:
            raise InvalidArgument(
                "truncate=False has no effect with ramp='rotations', whose ends are never rounded; omit truncate "
                "or use ramp='dimension'"
            )
        if (self.mscale is None) != (self.mscale_all_dim is None):
            raise InvalidArgument(
                f"mscale={self.mscale} and mscale_all_dim={self.mscale_all_dim} must be passed together, because "
                "implementations differ if only one of the two is set"
            )
        if self.attention_factor is not None and self.mscale is not None:
            raise InvalidArgument(
                f"attention_factor={self.attention_factor} cannot be combined with mscale={self.mscale}, because "
                "both set the attention factor; pass only one of the two"
            )

    @property
    def scale(self) -> float:
        """The attention factor a, by which cos and sin are multiplied."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale is None or self.mscale_all_dim is None:
            return sharpening(self.factor)
        return sharpening(self.factor, self.mscale) / sharpening(self.factor, self.mscale_all_dim)

    @property
    def softmax_factor(self) -> float:
        """The factor by which attention's 1/√D is multiplied: 1, except with DeepSeek's ``mscale_all_dim``."""
        return 1.0 if self.mscale_all_dim is None else sharpening(self.factor, self.mscale_all_dim) ** 2

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        frequencies, factor = unscaled_frequencies(rotary_dim, base), Decimal(self.factor)
        if self.ramp == "rotations":
            slow, fast = Decimal(self.beta_slow), Decimal(self.beta_fast)
            keep = [(turns_within(f, self.original_length) - slow) / (fast - slow) for f in frequencies]
            mixed = mix(frequencies, keep, factor)
            return Frequencies(mixed, rounded(mixed), self.scale)
        low, high = self._ends(rotary_dim, base)
        mixed = mix(frequencies, [1 - (i - low) / (high - low) for i in range(rotary_dim // 2)], factor)
        in_float32 = self._float32(powers_float32(rotary_dim, base), float(low), float(high))
        return Frequencies(mixed, tuple(in_float32.tolist()), self.scale)

    def ends(self, rotary_dim: int, base: float) -> tuple[float, float]:
        """Return the first and the last pair of the dimension ramp.

        Raises:
            InvalidArgument: the ends of the ramp are in the wrong order, because all pairs complete more than
                beta_fast turns or no pair completes beta_slow turns. With such settings, the authors' code
                interpolates pairs that should be kept, or keeps pairs that should be interpolated.
        """
        low, high = self._ends(rotary_dim, base)
        return float(low), float(high)

    @exact
    def _ends(self, rotary_dim: int, base: float) -> tuple[Decimal, Decimal]:
        """Return the exact ``ends``. In float64, an end of the ramp would have an error of 1e-16, which would
        change angles by 6e-8 rad at position 2^31.
        """
        length, log_base = self.original_length, Decimal(base).ln()
        low, high = (
            rotary_dim * (length / (Decimal(turns) * TWO_PI)).ln() / (2 * log_base)
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            low, high = Decimal(math.floor(low)), Decimal(math.ceil(high))
        low, high = max(low, Decimal(0)), min(high, Decimal(rotary_dim - 1))
        if low > high:
            raise InvalidArgument(
                f"original_length={length} and base={base:g} put the ramp's ends at pairs {low:g} and {high:g}, "
                "in the wrong order, because every pair is on the same side of the ramp; use ramp='rotations'"
            )
        return low, high + Decimal("0.001") if low == high else high

    def _float32(self, powers: Float[Tensor, " pairs"], low: float, high: float) -> Float[Tensor, " pairs"]:
        """Compute the dimension ramp between these ``ends`` in float32, with the released code's order of
        operations.
        """
        extrapolated, interpolated = 1.0 / powers, 1.0 / (self.factor * powers)
        index = torch.arange(len(powers), dtype=torch.float32, device="cpu")
        keep = 1 - ((index - low) / (high - low)).clamp(0, 1)
        return interpolated * (1 - keep) + extrapolated * keep
