"""Computes intervals (Wilson for shares, t over seeds or blocks, paired differences) and effective lengths."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from posenc.pictures.numbers import count

LEVEL = 0.95
FEW = 3
"""The smallest number of documents for an effective length. With only two documents, the ends of an interval
would be 13 times as far from the mean as the two values are."""


@dataclass(frozen=True)
class Interval:
    """A mean with its interval, by default at 95%.

    ``low`` and ``high`` are NaN for a single number, which has no spread. ``mean``, ``low`` and ``high`` are NaN if
    an underlying number is not finite.
    """

    mean: float
    low: float
    high: float
    of: str
    """The averaged samples, such as ``"blocks"``, ``"answers"``, ``"seeds"`` or ``"seeds and blocks"``."""
    seeds: tuple[float, ...] = ()
    """The two values if there are two seeds, else empty. Pages show both values, because the interval of their mean
    is 13 times as wide as the distance between them.
    """

    def as_json(self) -> dict[str, Any]:
        """Return the mean and the ends of the interval for JSON, with None for NaN and infinity."""
        return {"mean": number(self.mean), "interval": None if math.isnan(self.low) else [self.low, self.high]}


def number(value: float) -> float | None:
    """Return the value, or None for JSON if the value is not finite."""
    return value if math.isfinite(value) else None


def wilson(right: float, asked: int) -> tuple[float, float]:
    """Return the Wilson score interval (Wilson 1927) of the share ``right / asked``."""
    from scipy.special import ndtri  # equal to scipy.stats, whose import takes a second

    z = float(ndtri(0.5 + LEVEL / 2))
    share, room = right / asked, z * z / asked
    centre = (share + room / 2) / (1 + room)
    half = z * math.sqrt(share * (1 - share) / asked + room / (4 * asked)) / (1 + room)
    return max(0.0, centre - half), min(1.0, centre + half)


def student(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Return the t interval of a mean: mean ± t·sd/√n, where t = 4.30 for n = 3."""
    from scipy.special import stdtrit

    n = len(values)
    if n < 2 or not finite(values):
        return math.nan, math.nan
    half = float(stdtrit(n - 1, 0.5 + level / 2)) * stdev(values) / math.sqrt(n)
    return fmean(values) - half, fmean(values) + half


def finite(values: Sequence[float]) -> bool:
    """Return whether every value is a finite number."""
    return all(map(math.isfinite, values))


def perplexity(loss: float) -> float:
    """Return exp(loss) for a loss in nats, or infinity on overflow."""
    return math.inf if loss > 709 else math.exp(loss)


def over_answers(shares: Sequence[float]) -> Interval:
    """Return the share of right answers; a sequence with several answers counts as one sample."""
    return Interval(fmean(shares), *wilson(math.fsum(shares), len(shares)), "answers")


def between_shares(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Return after − before for shares on different sequences, with Newcombe's interval (1998, method 10)."""
    start, end = over_answers(before), over_answers(after)
    gap = end.mean - start.mean
    low = gap - math.hypot(end.mean - end.low, start.high - start.mean)
    return Interval(gap, low, gap + math.hypot(end.high - end.mean, start.mean - start.low), "answers")


def over_seeds(means: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the mean over runs that differ only in their seed."""
    return replace(_over(means, "seeds", level), seeds=tuple(means) if len(means) == 2 else ())


def crossed(of_seeds: Sequence[Sequence[float]], level: float = LEVEL) -> Interval:
    """Return the mean over runs on the same blocks, with an interval over both seeds and blocks; see ``together``.

    ``of_seeds`` has one row per seed and one column per block. For one seed, the interval is over blocks.
    """
    blocks = [fmean(column) for column in zip(*of_seeds, strict=True)]
    return together(over_seeds([fmean(row) for row in of_seeds], level), _over(blocks, "blocks", level))


def together(one: Interval, other: Interval) -> Interval:
    """Combine two intervals with independent errors into one interval (MOVER, Zou and Donner 2008).

    The result has the mean of ``one``. Its upper end is √(a² + b²) above this mean, where a and b are the distances
    from the mean to the upper end in ``one`` and in ``other``. The lower end is computed in the same way. If one
    of the two intervals has no spread, the other is returned. When ``crossed`` combines seeds and blocks, both
    intervals include the interaction of seeds and blocks, so the combined interval is slightly too wide.
    """
    if math.isnan(other.low):
        return one
    if math.isnan(one.low):
        return other
    low = math.hypot(one.mean - one.low, other.mean - other.low)
    high = math.hypot(one.high - one.mean, other.high - other.mean)
    return Interval(one.mean, one.mean - low, one.mean + high, f"{one.of} and {other.of}", one.seeds)


def paired(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the mean of ours − theirs on the same blocks, so that the variation between blocks cancels."""
    return _over([a - b for a, b in zip(ours, theirs, strict=True)], "blocks", level)


def _over(values: Sequence[float], of: str, level: float = LEVEL) -> Interval:
    return Interval(fmean(values) if finite(values) else math.nan, *student(values, level), of)


NO_VALUE = Interval(math.nan, math.nan, math.nan, "")
"""The interval that stands for a missing value."""


@dataclass(frozen=True)
class EffectiveLength:
    """The longest length up to which a measure stays within a limit.

    Args:
        tokens: this length, computed from the means; 0 if the mean exceeds the limit at the shortest length.
        low: the length computed in the same way from the upper ends of the intervals, so that at all lengths up to
            ``low``, the whole interval is within the limit.
        high: the longest measured length at which the lower end of the interval is within the limit. The true
            effective length L lies between ``low`` and ``high`` with 95% confidence, because each end is wrong in
            at most 2.5% of cases, the rate at which a 95% interval misses the true measure on a given side. If
            ``low`` is above L, the whole interval at the first measured length past L is within the limit, but the
            true measure there is not. If ``high`` is below L, the true measure at L is within the limit, but no
            part of the interval there is.
        at_least: whether the measure stays within the limit up to the longest measured length.
        undecided: whether there are fewer than ``FEW`` documents.
    """

    tokens: int
    low: int
    high: int
    at_least: bool
    undecided: bool

    @property
    def parts(self) -> tuple[str, str]:
        """The length and its interval as strings for tables; the interval is empty if its two ends are equal."""
        if self.undecided:
            return "undecided", ""
        text = f"at least {count(self.tokens)}" if self.at_least else count(self.tokens)
        return text, "" if self.low == self.high else f"{count(self.low)} … {count(self.high)}"

    def __str__(self) -> str:
        text, interval = self.parts
        return f"{text} ({interval})" if interval else text

    def as_json(self) -> dict[str, object]:
        """Return the values for JSON; ``interval`` is None if the length is undecided."""
        return {
            "tokens": self.tokens,
            "at_least": self.at_least,
            "interval": None if self.undecided else [self.low, self.high],
            "undecided": self.undecided,
        }


def longest_within(
    ends: Sequence[int], values: Sequence[Interval], limit: float, documents: int
) -> EffectiveLength:
    """Return the length up to which all values stay within ``limit``.

    ``values[i]`` is the value at the length ``ends[i]``, or in the bucket of positions that ends there.
    """

    def before_the_first(past: Sequence[bool]) -> int:
        return [0, *ends][past.index(True) if True in past else len(ends)]

    tokens = before_the_first([not value.mean <= limit for value in values])
    low = before_the_first([not value.high <= limit for value in values])
    high = max(
        (
            end
            for end, value in zip(ends, values, strict=True)
            if not (value.low > limit or math.isnan(value.mean))  # a loss that is NaN is past any limit
        ),
        default=0,
    )
    return EffectiveLength(tokens, low, high, tokens == ends[-1], documents < FEW)
