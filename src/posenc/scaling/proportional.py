"""p-RoPE does not rotate the slowest pairs (Barbero et al. 2024, arXiv 2410.06205, section 6; Gemma 4).

    θ_i = b^(−2i/D) for i < ⌊p·D/2⌋, else 0

The pairs that rotate keep the channels and frequencies that they have when the whole head rotates; with half
pairing, pair i consists of channels i and i+D/2. Partial rotation is different: ``Rotary(rotary_dim=r)`` rotates
the first r channels with the frequencies b^(−2i/r). Trained weights work only with the method that was used
in training.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import torch

from posenc.arguments import is_number, such_that
from posenc.scaling.checks import Factor
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Scaling, exact, powers_float32, unscaled_frequencies


@dataclass(frozen=True)
class Proportional(Scaling):
    """Only the fastest pairs rotate.

    Args:
        fraction: p, between 0 and 1; ⌊p·D/2⌋ pairs rotate. 0 is NoPE, 1 is plain RoPE.
        factor: s ≥ 1, the divisor of the frequencies, as in Hugging Face; the paper has no factor.
    """

    fraction: Annotated[
        float,
        such_that(
            lambda p: is_number(p) and 0 <= p <= 1, "be in 0 … 1: the share of pairs that rotate (Gemma 4: 0.25)"
        ),
    ]
    factor: Factor = 1.0

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        rotating = int(self.fraction * rotary_dim // 2)
        frequencies = unscaled_frequencies(rotary_dim, base)[:rotating]
        still = rotary_dim // 2 - rotating
        in_float32 = 1.0 / powers_float32(rotary_dim, base, rotating) / self.factor
        return Frequencies(
            tuple(f / Decimal(self.factor) for f in frequencies) + (Decimal(0),) * still,
            tuple(torch.cat((in_float32, torch.zeros(still, device="cpu"))).tolist()),
        )
