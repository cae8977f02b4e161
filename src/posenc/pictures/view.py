"""Views. Each answers one question about an encoding; the answer consists of named arrays with axes, units and
ticks.

Views contain results and do not draw. ``draw`` draws views with matplotlib, and the lab draws views on a canvas.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from posenc.pictures.palette import Scale


@dataclass(frozen=True)
class Axis:
    """An axis of an array: its name, its unit and its values."""

    name: str
    values: tuple[float, ...]
    unit: str = ""
    log: bool = False
    labels: tuple[str, ...] = ()
    """The labels of the ticks, such as the words of a sentence; by default, the values are the labels."""


@dataclass(frozen=True)
class Heatmap:
    """A matrix, rows × columns, with row 0 at the top. NaN means no value and is blank."""

    name: str
    values: Float[Tensor, "rows columns"]
    rows: Axis
    columns: Axis
    scale: Scale
    unit: str = ""
    limit: float | None = None
    """The colour scale ends at ±limit, or at 0 and limit. By default, the smallest and largest values set its
    ends.
    """
    marked_rows: tuple[int, ...] = ()
    marked_columns: tuple[int, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    """The strings in the cells, such as letters; by default, numbers if there are few cells."""
    picture: Float[Tensor, "down across"] | None = None
    """A picture that is drawn instead of the cells, with the same colour scale; the pointer still selects cells."""


@dataclass(frozen=True)
class Line:
    """A curve, y over x, with a name at its end and, if the curve shows an encoding, the encoding's name.

    ``low`` and ``high`` bound a band around the curve. If ``hollow`` is True, the curve is thin and its markers
    are not filled, as for an encoding that a study does not rank because some of its runs did not converge.
    """

    name: str
    values: Float[Tensor, " n"]
    encoding: str = ""
    low: Float[Tensor, " n"] | None = None
    high: Float[Tensor, " n"] | None = None
    hollow: bool = False


@dataclass(frozen=True)
class Lines:
    """Curves over a common axis."""

    name: str
    lines: tuple[Line, ...]
    x: Axis
    y_name: str
    y_unit: str = ""
    y_log: bool = False
    marks: tuple[tuple[float, str], ...] = ()
    """Vertical lines with their positions x and their captions, such as (128, "trained to here")."""
    levels: tuple[tuple[float, str], ...] = ()
    """Horizontal lines with their positions y and their captions, such as (0.06, "chance")."""
    between: int = 0
    """The number of points interpolated between two computed points, to make the curve smooth."""
    apart: bool = False
    """Whether points are separate, as for layers, between which there are no values."""


@dataclass(frozen=True)
class Grip:
    """A setting that a user changes by dragging an arrow: its value, and the arrow's tip at each possible value."""

    setting: str
    at: float
    tips: tuple[tuple[float, float, float], ...]
    """A tuple (value, x, y) for each possible value."""


@dataclass(frozen=True)
class Arrow:
    """A vector from the origin of a plane."""

    name: str
    x: float
    y: float
    ghost: bool = False
    """Whether the arrow is drawn faintly, as a previous state."""
    role: Literal["", "query", "key", "reference"] = ""
    """The role of the arrow, which determines its colour and dash."""
    grip: Grip | None = None
    word: str = ""
    """The text at the tip; by default, the first word of the arrow's name if this word is short."""
    text: str = ""
    """The text below the arrow's name; by default, the arrow's coordinates."""
    along: tuple[str, ...] = ()
    """The settings of other arrows; dragging one of these arrows rotates this arrow by the same angle."""


@dataclass(frozen=True)
class Plane:
    """Vectors in a plane with both axes from −limit to limit. ``arcs`` mark angles between two vectors."""

    name: str
    arrows: tuple[Arrow, ...]
    limit: float
    arcs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class View:
    """The answer to one question about an encoding.

    Args:
        title: the answer or question in one sentence, used as the figure's title.
        panels: the panels from left to right.
        readouts: numbers to show next to the picture, by name and in a fixed order.
        python: the library calls that compute these numbers, to copy and run.
    """

    title: str
    panels: tuple[Heatmap | Lines | Plane, ...]
    readouts: dict[str, float | str] = field(default_factory=dict)
    python: str = ""


def counted(name: str, count: int, unit: str = "") -> Axis:
    """Return an axis of the integers 0, 1, …, ``count`` − 1."""
    return Axis(name, tuple(map(float, range(count))), unit)


def labelled(name: str, labels: Iterable[str]) -> Axis:
    """Return an axis of names, such as the words of a sentence."""
    names = tuple(labels)
    return Axis(name, tuple(range(len(names))), labels=names)
