"""Paints vectors in a plane, each on the circle that a rotation would take it along."""

from itertools import combinations
from math import hypot

from matplotlib.patches import Circle, FancyArrowPatch

from posenc.workbench.figures.ink import SMALL, Axes, Colour, inked, label_ends, on, sequence
from posenc.workbench.figures.lines import short
from posenc.workbench.palette import HAIRLINE
from posenc.workbench.views.view import Arrow, Plane


@inked
def plane(panel: Plane, ax: Axes | None = None, *, names: bool = True) -> Axes:
    """Paint ``panel``; arrows are named at their tips, or beside the plane where tips come close.

    ``names=False`` leaves names out, for a plane beside another that has them.
    """
    ax = on(ax, width=5.0, height=4.2)
    ax.set(xlim=(-panel.limit, panel.limit), ylim=(-panel.limit, panel.limit), aspect="equal")
    for side in ax.spines.values():
        side.set_visible(False)
    ends = (-panel.limit, 0, panel.limit)
    ax.set_xticks(ends, [short(end) for end in ends])
    ax.set_yticks(ends, [short(end) for end in ends])
    ax.axhline(0, color=HAIRLINE, linewidth=0.6, zorder=0)
    ax.axvline(0, color=HAIRLINE, linewidth=0.6, zorder=0)
    drawn = [a for a in panel.arrows if not a.ghost]
    shades = [sequence()(0.75 * i / max(len(drawn) - 1, 1)) for i in range(len(drawn))]
    colour = {a.name: shade for a, shade in zip(drawn, shades, strict=True)}
    for arrow in panel.arrows:
        _arrow(ax, arrow, HAIRLINE if arrow.ghost else colour[arrow.name])
    if not names:
        return ax
    near = any(hypot(a.x - b.x, a.y - b.y) < 0.2 * panel.limit for a, b in combinations(drawn, 2))
    if near:
        label_ends(ax, [(a.y, a.name, colour[a.name]) for a in drawn])
        return ax
    for arrow in panel.arrows:
        away = ((1 if arrow.x >= 0 else -1) * 5, (1 if arrow.y >= 0 else -1) * 5)
        ax.annotate(
            arrow.name,
            (arrow.x, arrow.y),
            xytext=away,
            textcoords="offset points",
            ha="left" if arrow.x >= 0 else "right",
            va="bottom" if arrow.y >= 0 else "top",
            fontsize=SMALL,
        )
    return ax


def _arrow(ax: Axes, arrow: Arrow, colour: Colour) -> None:
    """The arrow and, unless it is a ghost, its circle."""
    if not arrow.ghost:
        ax.add_patch(Circle((0, 0), hypot(arrow.x, arrow.y), fill=False, color=HAIRLINE, linewidth=0.6))
    tip = arrow.x, arrow.y
    line = FancyArrowPatch((0, 0), tip, arrowstyle="-|>", mutation_scale=10, shrinkA=0, shrinkB=0, linewidth=1.6)
    line.set_color(colour)
    ax.add_patch(line)
