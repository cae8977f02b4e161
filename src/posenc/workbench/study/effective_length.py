"""The effective length: how far a model reads about as well as at its trained length."""

from collections.abc import Sequence
from dataclasses import dataclass

from posenc.pictures.numbers import count
from posenc.workbench.study.statistics import Interval

FEW = 3
"""Documents below which there is none: an interval of two reaches thirteen times as far as each from their mean."""


@dataclass(frozen=True)
class EffectiveLength:
    """The longest length at which, and before which, a method stays within a limit.

    Args:
        tokens: by the means; 0 where the shortest length is past the limit.
        low: the longest length up to which each is surely within the limit.
        high: the last length that is not surely past it. The true length lies in ``low`` … ``high`` with 95%: low
            is above it only where the interval at the first length past the limit is wrong, high below it only
            where that at the last length within it is.
        read: the longest length that was read.
        documents: too few for an interval below ``FEW``.
    """

    tokens: int
    low: int
    high: int
    read: int
    documents: int

    @property
    def undecided(self) -> bool:
        return self.documents < FEW

    @property
    def at_least(self) -> bool:
        """Whether the text ended before the limit was passed."""
        return self.tokens == self.read

    @property
    def parts(self) -> tuple[str, str]:
        """The length and its interval, as tables have them; no interval where both ends are it."""
        if self.undecided:
            return "undecided", ""
        text = f"at least {count(self.tokens)}" if self.at_least else count(self.tokens)
        return text, "" if self.low == self.high else f"{count(self.low)} … {count(self.high)}"

    def __str__(self) -> str:
        text, interval = self.parts
        return f"{text} ({interval})" if interval else text

    def as_json(self) -> dict[str, object]:
        """With ``interval``, null where it is undecided."""
        interval = None if self.undecided else [self.low, self.high]
        return {"tokens": self.tokens, "at_least": self.at_least, "interval": interval, "undecided": self.undecided}


def longest_within(
    ends: Sequence[int], values: Sequence[Interval], limit: float, documents: int
) -> EffectiveLength:
    """How far ``values``, each measured up to one of the lengths ``ends``, stay within ``limit``."""
    within = [value.mean <= limit for value in values]
    surely = [value.high <= limit for value in values]
    possibly = [not value.low > limit for value in values]
    before = [0, *ends]
    last = max((i for i, so in enumerate(possibly, 1) if so), default=0)
    tokens, low = (before[next((i for i, so in enumerate(each) if not so), len(each))] for each in (within, surely))
    return EffectiveLength(tokens, low, before[last], ends[-1], documents)
