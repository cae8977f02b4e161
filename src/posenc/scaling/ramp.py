"""Helpers for ``exact`` formulas of scalings with a ramp: they count turns within a length and mix frequencies."""

from collections.abc import Sequence
from decimal import Decimal

from posenc.scaling.scaling import TWO_PI


def turns_within(frequency: Decimal, length: int) -> Decimal:
    """Return r = L/λ, the number of turns that a pair with this frequency completes within ``length`` positions."""
    return frequency * length / TWO_PI


def mix(frequencies: Sequence[Decimal], keep: Sequence[Decimal], factor: Decimal) -> tuple[Decimal, ...]:
    """Return (1−g)·θ/s + g·θ for every pair, where s is ``factor`` and g is the pair's value in ``keep``, clipped
    to [0, 1]. If g = 1, the frequency is kept; if g = 0, it is divided by s.
    """
    shares = (min(max(g, Decimal(0)), Decimal(1)) for g in keep)
    return tuple((1 - g) * f / factor + g * f for f, g in zip(frequencies, shares, strict=True))
