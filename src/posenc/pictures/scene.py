"""The panels of a view with all drawing decisions made, so that renderers only draw."""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from posenc.pictures.view import Arrow, Heatmap, Line, Lines, Plane

Tick = tuple[float, str]
"""A value on an axis and its label."""


@dataclass(frozen=True)
class AxisScale:
    """An axis of a panel: caption, values at the ends, and ticks.

    An axis of cells runs from −0.5 to n − 0.5, so that cell i is centred at i.
    """

    label: str
    low: float
    high: float
    ticks: tuple[Tick, ...]
    log: bool = False

    def place(self, value: float) -> float | None:
        """Return the position of a value, from 0 (low end) to 1 (high end), or None if the axis cannot show it."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        low, high, at = map(math.log10 if self.log else float, (self.low, self.high, value))
        share = (at - low) / (high - low)
        return round(min(1.0, max(0.0, share)), 5) if -1e-6 <= share <= 1 + 1e-6 else None


@dataclass(frozen=True)
class Bar:
    """A colour scale, which several panels can share.

    Args:
        low, high: the values at the ends of the scale, symmetric about 0 for a signed scale.
        shown: the range of values that occur; renderers draw only this part of the scale next to the panels.
        legend: the labels of a bar without room for ticks: at both ends, and at 0 if 0 is far from both.
    """

    low: float
    high: float
    shown: tuple[float, float]
    label: str
    ticks: tuple[Tick, ...]
    legend: tuple[Tick, ...]


@dataclass(frozen=True)
class Map:
    """A matrix with its axes and its colour scale.

    Args:
        painted: the matrix that is drawn, which is the picture if the heatmap has one, and its values if not.
        texts: the number in every cell; empty if there are too many cells to show numbers.
        keys: the names of the rows, shown next to the numbers in ``texts``.
    """

    heatmap: Heatmap
    painted: Float[Tensor, "down across"]
    rows: AxisScale
    columns: AxisScale
    bar: Bar
    texts: tuple[tuple[str, ...], ...]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Curve:
    """A line of a chart.

    Args:
        colour: a name in ``colours.LINES``, which has a line colour and a text colour for each theme.
        dash: the lengths of dashes and gaps, as multiples of the line width; empty for a solid line.
        marker: a matplotlib marker.
    """

    line: Line
    colour: str
    dash: tuple[float, ...]
    marker: str


@dataclass(frozen=True)
class Chart:
    """Curves with their axes."""

    lines: Lines
    x: AxisScale
    y: AxisScale
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Vector:
    """An arrow in a plane, with the name of its colour and the text of its label."""

    arrow: Arrow
    colour: str
    tip: str
    text: str


@dataclass(frozen=True)
class Disc:
    """Vectors in a plane; both axes have the same ticks."""

    plane: Plane
    vectors: tuple[Vector, ...]
    ticks: tuple[Tick, ...]
