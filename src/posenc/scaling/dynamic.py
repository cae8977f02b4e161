"""Dynamic NTK increases the NTK base with the length of the request (emozilla 2023; Hugging Face ``"dynamic"``).

    b' = b·(f·T/L − (f−1))^(d/(d−2))   for T > L,   b' = b for T ≤ L

T is the length of the request, L the trained length, b the base and f the factor. With f = 1, the base equals
the base of NTK with s = T/L. In general, the base equals the base of NTK with factor f·T/L − (f−1). ``plan``
rounds this factor once to float64, so angles are within 1e-8 rad of the formula at any position.
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
        factor: f ≥ 1; for a request of T tokens with T > L, f multiplies T/L.
        original_length: L, the trained context length in tokens.

    If a request outgrows its planned length and is planned again, cached keys are stale: they were rotated with the
    old frequencies, and new queries use the new ones. Plan for prompt plus answer, or convert the cache with
    ``posenc.rerotate``. Hugging Face keeps the old keys when the base grows during generation. Hugging Face also
    computes the base from a float32 length, so the last bits may differ from the result of ``plan``.
    """

    factor: Factor
    original_length: Length

    def plan(self, total_length: int) -> Scaling:
        """Return ``Default()`` for requests up to the trained length, and NTK for longer requests."""
        check_total_length(total_length, "total_length")
        if total_length <= self.original_length:
            return Default()
        growth = Fraction(total_length, self.original_length) - 1
        return NTK(float(1 + Fraction(self.factor) * growth))
