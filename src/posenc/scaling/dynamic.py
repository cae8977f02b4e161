"""Dynamic NTK: the NTK base grows with the length of the request (emozilla 2023; Hugging Face ``"dynamic"``).

    b' = b·(f·T/L − (f−1))^(d/(d−2))   for T > L,   b' = b for T ≤ L

With f=1 this is NTK with s = T/L. In general it is NTK at factor f·T/L − (f−1), which ``plan`` returns with the
factor rounded once to float64; angles are then within 1e-8 rad of the formula's at any position.
"""

from dataclasses import dataclass
from fractions import Fraction

from posenc.scaling.checks import Factor, Length, check_total_length
from posenc.scaling.default import Default
from posenc.scaling.ntk import NTK
from posenc.scaling.scaling import LengthScaling, Scaling


@dataclass(frozen=True)
class DynamicNTK(LengthScaling):
    """NTK with a base that depends on the length.

    Args:
        factor: f ≥ 1, the growth beyond the trained length.
        original_length: L, the trained context in tokens.

    Cached keys are stale as soon as a request outgrows the length it was planned for: scores of keys rotated under
    one plan with queries of another are wrong. Plan for prompt and answer together, or move the cache with
    ``posenc.rerotate``. When Hugging Face grows the base during generation, it keeps the old keys, and it computes
    the base from a float32 length, so its last bits may differ from ``plan``.
    """

    factor: Factor
    original_length: Length

    def plan(self, total_length: int) -> Scaling:
        """``Default()`` up to the trained length, NTK beyond it."""
        check_total_length(total_length, "total_length")
        if total_length <= self.original_length:
            return Default()
        growth = Fraction(total_length, self.original_length) - 1
        return NTK(float(1 + Fraction(self.factor) * growth))
