"""p-RoPE: the slowest pairs do not turn at all (Barbero et al. 2024, arXiv 2410.06205, section 6; Gemma 4).

    θ_i = b^(−2i/D) for i < p·D/2, else 0

The ladder is that of the whole head, and channels pair over the whole head, (i, i+D/2) with half pairing.
Partial rotation is another thing: ``Rotary(rotary_dim=r)`` gives the first r channels a complete ladder of their
own, b^(−2i/r). The two are not interchangeable on trained weights.
"""

from dataclasses import dataclass
from decimal import Decimal

import torch

from posenc.arguments import is_number
from posenc.errors import InvalidArgument
from posenc.scaling.checks import check_factor, make_plain
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import Scaling, check_ladder, exact, ladder, powers_float32


@dataclass(frozen=True)
class Proportional(Scaling):
    """The fastest pairs of the full ladder; the rest stand still.

    Args:
        fraction: p, between 0 and 1: ⌊p·D/2⌋ pairs turn; 0 is NoPE, 1 plain RoPE.
        factor: s ≥ 1; those that turn are divided by it. Hugging Face has it, the paper does not.
    """

    fraction: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        make_plain(self)
        check_factor(self.factor)
        if not is_number(self.fraction) or not 0 <= self.fraction <= 1:
            raise InvalidArgument(
                f"fraction={self.fraction!r} must lie in 0 … 1: the share of pairs that turn (Gemma 4: 0.25)"
            )

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        check_ladder(rotary_dim, base)
        turning = int(self.fraction * rotary_dim // 2)
        frequencies = ladder(rotary_dim, base)[:turning]
        still = rotary_dim // 2 - turning
        in_float32 = 1.0 / powers_float32(rotary_dim, base, turning) / self.factor
        return Frequencies(
            tuple(f / Decimal(self.factor) for f in frequencies) + (Decimal(0),) * still,
            tuple(torch.cat((in_float32, torch.zeros(still, device="cpu"))).tolist()),
        )
