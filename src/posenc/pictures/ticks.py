"""Where an axis ends and where its ticks stand: round values, enough of them to read a value off."""

import math
from collections.abc import Sequence

from posenc.pictures.numbers import power, short

DEEPEST = 6
"""A logarithmic axis shows this many powers of ten below its top; more only where a whole curve lies lower."""
MANTISSAS = (1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)
"""Places of ticks within a power of ten, for ever shorter logarithmic axes."""
ENOUGH, MOST = 4, 7
"""Ticks of a logarithmic axis, at least and at most, where its length allows."""


def round_steps(low: float, high: float, most: int = 6) -> list[float]:
    """At most ``most`` + 1 round values (1, 2 or 5 times a power of ten apart) from low to high."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def tick_indices(values: Sequence[float], most: int = 6) -> list[int]:
    """Indices of an ascending axis where a tick reads well: the round values that it holds, or even places."""
    if len(values) <= most + 2:
        return list(range(len(values)))
    wanted = round_steps(min(values), max(values), most)
    at = {value: i for i, value in enumerate(values)}
    indices = [at[value] for value in wanted if value in at]
    if len(indices) >= 3:
        return indices
    stride = math.ceil(len(values) / most)
    return list(range(0, len(values), stride))


def linear_limits(values: Sequence[float]) -> tuple[float, float]:
    """The ends of a linear axis: the round values around what it holds."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    steps = round_steps(low, high)
    gap = steps[1] - steps[0] if len(steps) > 1 else 1.0
    low, high = math.floor(low / gap + 1e-9) * gap, math.ceil(high / gap - 1e-9) * gap
    return low, high if high > low else low + (abs(low) or 1.0)


def log_limits(curves: Sequence[Sequence[float]]) -> tuple[float, float, list[float]]:
    """The ends of a logarithmic axis and its ticks.

    Values that are not positive have no place on it. What lies more than ``DEEPEST`` powers of ten below the top
    is cut off, unless a whole curve does. A float32 just below a power of ten belongs to it, not to the one before.
    """
    positive = [[v for v in curve if math.isfinite(v) and v > 0] for curve in curves]
    positive = [curve for curve in positive if curve] or [[1.0]]
    high = max(map(max, positive))
    low = max(min(map(min, positive)), min(high / 10**DEEPEST, min(map(max, positive)) / 3))
    for mantissas in MANTISSAS:
        first, last = math.floor(math.log10(low) + 1e-6), math.ceil(math.log10(high) - 1e-6)
        places = [m * 10.0**e for e in range(first, last + 1) for m in mantissas]
        start = max((p for p in places if p <= low * (1 + 1e-6)), default=places[0])
        end = min((p for p in places if p >= high * (1 - 1e-6)), default=places[-1])
        ticks = [p for p in places if start <= p <= max(end, start)]
        if len(ticks) >= ENOUGH:
            break
    else:
        if low < high:  # so short that a logarithm is all but a straight line
            start, end = linear_limits([low, high])
            return start, end, round_steps(start, end)
        if len(ticks) == 1:
            ticks = [start, start * 10]
    stride = math.ceil(len(ticks) / MOST)
    return ticks[0], ticks[-1], [float(f"{t:.3g}") for t in ticks[::stride]]


def with_texts(values: Sequence[float], *, log: bool = False) -> tuple[tuple[float, str], ...]:
    """Ticks at these values, each with its text; on a long logarithmic axis all are powers of ten."""
    decades = (
        log
        and all(math.log10(value).is_integer() for value in values)
        and not 1e-3 <= min(values) <= max(values) <= 1e4
    )
    return tuple((value, power(value) if decades else short(value)) for value in values)
