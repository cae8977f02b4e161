"""NTK-aware scaling by a factor s uses a larger base, which slows the slow pairs and hardly changes the fast
pairs.

``form="base"`` (bloc97 2023; YaRN, arXiv 2309.00071, appendix A.1): θ'_i = b'^(−2i/d), b' = b·s^(d/(d−2)). The
first frequency is unchanged, and the last frequency is divided by exactly s. Nearly all slow pairs leave the range
of angles that the model has seen in training. For d = 128, L = 4096 and s = 8, 18 pairs never complete a turn in
training, and 17 of them leave this range.

``form="fixed"`` (Su 2023, "NTK-RoPE-fixed"): θ'_i = (b·s)^(−2i/d) / s^(2/d). The last frequency is also divided
by s, and the first frequency is divided by s^(2/d). Neighbouring frequencies have the same ratio as with base b·s.

``form="abf"`` (adjusted base frequency; Xiong et al. 2023, arXiv 2309.16039, section 4.1): b' = b·s^(log₈ 50),
or b·s^1.88. The authors raise the base from 10,000 to 500,000 for eight times the length but do not state a
rule; the power law through this point is our choice. For d > 4, the last frequency is divided by more than s,
so in texts s times as long, the angles of the last pair stay in the range that the model has seen in training.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from posenc.errors import InvalidArgument
from posenc.scaling.checks import Factor
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import (
    Scaling,
    check_dim_and_base,
    exact,
    rounded,
    unscaled_float32,
    unscaled_frequencies,
)


@dataclass(frozen=True)
class NTK(Scaling):
    """Increases the base of the frequencies.

    Args:
        factor: s ≥ 1, the target length divided by the trained length.
        form: ``"base"``, which is the usual meaning of NTK; ``"fixed"``; or ``"abf"``, which has the largest
            base if ``rotary_dim`` is above 4.
    """

    factor: Factor
    form: Literal["base", "fixed", "abf"] = "base"

    def base(self, rotary_dim: int, base: float) -> float:
        """Return the equivalent base b' in float64, which can be set as the base in a checkpoint's config.

        Raises:
            InvalidArgument: ``form="fixed"``, which has no equivalent base.
        """
        _check_pairs(rotary_dim)
        if self.form == "fixed":
            raise InvalidArgument("form='fixed' has no equivalent base; call frequencies() instead")
        try:
            power = math.log(50) / math.log(8) if self.form == "abf" else rotary_dim / (rotary_dim - 2)
            larger = float(base * self.factor**power)
        except OverflowError:
            larger = math.inf
        if larger == math.inf:
            raise InvalidArgument(
                f"factor={self.factor:g} is too large, because the base overflows; use a smaller factor"
            )
        return larger

    @exact
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        check_dim_and_base(rotary_dim, base)
        _check_pairs(rotary_dim)
        factor = Decimal(self.factor)
        if self.form == "fixed":
            shrink = factor ** (Decimal(2) / rotary_dim)
            frequencies = tuple(f / shrink for f in unscaled_frequencies(rotary_dim, Decimal(base) * factor))
            return Frequencies(frequencies, rounded(frequencies))
        power = Decimal(50).ln() / Decimal(8).ln() if self.form == "abf" else Decimal(rotary_dim) / (rotary_dim - 2)
        larger = Decimal(base) * factor**power
        in_float32 = unscaled_float32(rotary_dim, self.base(rotary_dim, base))
        return Frequencies(unscaled_frequencies(rotary_dim, larger), tuple(in_float32.tolist()))


def _check_pairs(rotary_dim: int) -> None:
    if rotary_dim < 4:
        raise InvalidArgument(
            f"rotary_dim={rotary_dim} must be at least 4 for NTK, because the frequency of a single pair is 1 for "
            "any base"
        )
