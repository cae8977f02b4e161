"""LongRoPE divides the frequency of each pair by a factor that was found by search (Ding et al. 2024, arXiv
2402.13753; Phi-3).

    θ'_i = θ_i / f_i,  f is the short list up to the trained length L, the long list beyond it
    a = √(1 + ln s / ln L) for s > 1, else 1

s is the target length divided by the trained length. Both lists have the same attention factor a.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import torch

from posenc.arguments import positive
from posenc.errors import InvalidArgument
from posenc.scaling.checks import Factor, Factors, Length, check_total_length
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import (
    LengthScaling,
    Scaling,
    exact,
    powers_float32,
    unscaled_frequencies,
)


@dataclass(frozen=True)
class PerPair(Scaling):
    """Divides the frequency of every pair by its own factor. LongRoPE uses this scaling for a planned length.

    Args:
        factors: f_i > 0, one per pair.
        attention_factor: a, which multiplies cos and sin.
    """

    factors: Factors
    attention_factor: Annotated[float, positive("1.0 leaves scores unchanged")] = 1.0

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        frequencies = unscaled_frequencies(rotary_dim, base)
        if len(self.factors) != len(frequencies):
            raise InvalidArgument(
                f"factors has {len(self.factors)} numbers but must have {len(frequencies)} for "
                f"rotary_dim={rotary_dim}, one per pair of rotating channels"
            )
        divided = tuple(f / Decimal(s) for f, s in zip(frequencies, self.factors, strict=True))
        factors = torch.tensor(self.factors, dtype=torch.float32, device="cpu")
        in_float32 = 1.0 / (factors * powers_float32(rotary_dim, base))
        return Frequencies(divided, tuple(in_float32.tolist()), self.attention_factor)


@dataclass(frozen=True)
class LongRoPE(LengthScaling):
    """Two lists of factors. The length of the whole request determines which list is used.

    Args:
        short_factors: f_i for lengths up to and including ``original_length``.
        long_factors: f_i for longer requests.
        original_length: L, the trained context length in tokens.
        factor: s ≥ 1, the longest length divided by the trained length; it determines the attention factor.
        attention_factor: a; by default √(1 + ln s / ln L).

    Cached keys become stale if a request that was planned with the short list grows beyond L. Plan for prompt
    plus answer, or convert the cache with ``posenc.rerotate``. Hugging Face chooses the list by the longest row
    of the batch, so an answer depends on the other rows; here each request has its own plan.
    """

    short_factors: Factors
    long_factors: Factors
    original_length: Length
    factor: Factor
    attention_factor: Annotated[float | None, positive("omit it to use √(1 + ln s / ln L)")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.short_factors) != len(self.long_factors):
            raise InvalidArgument(
                f"short_factors has {len(self.short_factors)} numbers but long_factors has "
                f"{len(self.long_factors)}; both must have one number per pair"
            )

    def plan(self, total_length: int) -> Scaling:
        """Return the scaling with the short list if ``total_length`` ≤ ``original_length``, or else with the
        long list.
        """
        check_total_length(total_length, "total_length")
        factors = self.long_factors if total_length > self.original_length else self.short_factors
        usual = math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))
        return PerPair(factors, self.attention_factor or usual)
