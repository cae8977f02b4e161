"""Dynamic NTK: the NTK base grows with the length of the request (emozilla 2023; Hugging Face ``"dynamic"``).

    b' = b·(f·T/L − (f−1))^(d/(d−2))   for T > L,   b' = b for T ≤ L

With f=1 this is NTK with s = T/L. In general it is NTK with factor f·T/L − (f−1), which ``plan`` rounds once to
float64; angles are then within 1e-8 rad of the formula at any position.
"""

from dataclasses import dataclass
from fractions import Fraction

from posenc.scaling.checks import Factor, Length, check_total_length
from posenc.scaling.default import Default
from posenc.scaling.ntk import NTK
from posenc.scaling.scaling import LengthScaling, Scaling


@dataclass(frozen=True)
class DynamicNTK(LengthScaling):
    """NTK with a base that depends on the length of the request.

    Args:
        factor: f ≥ 1, the growth beyond the trained length.
        original_length: L, the trained context in tokens.

    Cached keys become stale as soon as a request outgrows its planned length, because scores of queries and keys
    rotated under different plans are wrong. Plan for prompt plus answer, or convert the cache with
    ``posenc.rerotate``. Hugging Face keeps the old keys when it grows the base during generation. It also computes
    the base from a float32 length, so the last bits may differ from ``plan``.
    """

    factor: Factor
    original_length: Length

    def plan(self, total_length: int) -> Scaling:
        """Return ``Default()`` up to the trained length, NTK beyond it."""
        check_total_length(total_length, "total_length")
        if total_length <= self.original_length:
            return Default()
        growth = Fraction(total_length, self.original_length) - 1
        return NTK(float(1 + Fraction(self.factor) * growth))
