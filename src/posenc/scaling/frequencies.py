"""Every pair's frequency, exact and as public models' float32 code computes it, and the attention factor."""

from dataclasses import dataclass
from decimal import Decimal

from posenc.errors import InvalidArgument


@dataclass(frozen=True)
class Frequencies:
    """The result of a scaling.

    Args:
        exact: θ_i, radians per position, one per pair, as exact decimals (50 digits).
        float32: the frequencies that public models' own code computes in float32, bit for bit; they differ from
            ``exact`` only by float32 rounding.
        attention_factor: a, which multiplies both cos and sin, so scores are multiplied by a².
    """

    exact: tuple[Decimal, ...]
    float32: tuple[float, ...]
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        if len(self.exact) != len(self.float32):
            raise InvalidArgument(
                f"float32 has {len(self.float32)} frequencies and exact has {len(self.exact)}; both must have one "
                "frequency per pair"
            )
        if any(not f.is_finite() or f < 0 for f in self.exact):
            raise InvalidArgument("frequencies must be finite and at least 0, in radians per position")
        if not 0 < self.attention_factor < float("inf"):
            raise InvalidArgument(
                f"attention_factor={self.attention_factor} must be a finite number above 0; use 1.0 to leave "
                "scores unchanged"
            )

    def __len__(self) -> int:
        return len(self.exact)
