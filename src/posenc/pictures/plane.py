"""Paints vectors in a plane, each on the circle that a rotation would take it along."""

from itertools import combinations
from math import atan2, degrees, hypot

from matplotlib.patches import Arc, Circle, FancyArrowPatch

from posenc.pictures.colours import line, text
from posenc.pictures.mpl import SMALL, Axes, label_ends
from posenc.pictures.palette import Paper
from posenc.pictures.scene import Disc, Vector


def plane(panel: Disc, ax: Axes, paper: Paper, *, names: bool = True) -> Axes:
    """Paint ``panel``; arrows are named at their tips, or beside the plane where tips come close.

    ``names=False`` leaves names out, for a plane beside another that has them.
    """
    ends = (-panel.limit, panel.limit)
    ax.set(xlim=ends, ylim=ends, aspect="equal")
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_xticks([at for at, _ in panel.ticks], [words for _, words in panel.ticks])
    ax.set_yticks([at for at, _ in panel.ticks], [words for _, words in panel.ticks])
    ax.axhline(0, color=paper.hairline, linewidth=0.6, zorder=0)
    ax.axvline(0, color=paper.hairline, linewidth=0.6, zorder=0)
    for vector in panel.vectors:
        _arrow(ax, vector, paper)
    if panel.arc:
        first, last = (degrees(atan2(a.y, a.x)) for a in (panel.vectors[i].arrow for i in panel.arc))
        start, end = (first, last) if (last - first) % 360 <= 180 else (last, first)
        size = 0.6 * panel.limit
        ax.add_patch(Arc((0, 0), size, size, theta1=start, theta2=end, color=paper.ink, linewidth=1.2))
    drawn = [vector for vector in panel.vectors if not vector.arrow.ghost]
    if not names:
        return ax
    tips = [(vector.arrow.x, vector.arrow.y) for vector in drawn]
    if any(hypot(a[0] - b[0], a[1] - b[1]) < 0.2 * panel.limit for a, b in combinations(tips, 2)):
        high = 2 * panel.limit
        label_ends(ax, [((v.arrow.y + panel.limit) / high, v.arrow.name, text(v.colour, paper)) for v in drawn])
        return ax
    for vector in panel.vectors:
        _tip(ax, vector, paper)
    return ax


def _tip(ax: Axes, vector: Vector, paper: Paper) -> None:
    """The name beside its arrow's tip, away from the middle."""
    arrow = vector.arrow
    ax.annotate(
        arrow.name,
        (arrow.x, arrow.y),
        xytext=((1 if arrow.x >= 0 else -1) * 5, (1 if arrow.y >= 0 else -1) * 5),
        textcoords="offset points",
        ha="left" if arrow.x >= 0 else "right",
        va="bottom" if arrow.y >= 0 else "top",
        fontsize=SMALL,
        color=paper.quiet if arrow.ghost else text(vector.colour, paper),
    )


def _arrow(ax: Axes, vector: Vector, paper: Paper) -> None:
    """The arrow and, unless it is a ghost, its circle; what others are compared with lies broad behind them."""
    arrow, wide = vector.arrow, vector.arrow.role == "reference"
    if not arrow.ghost:
        ax.add_patch(Circle((0, 0), hypot(arrow.x, arrow.y), fill=False, color=paper.hairline, linewidth=0.6))
    head = FancyArrowPatch(
        (0, 0),
        (arrow.x, arrow.y),
        arrowstyle="-|>",
        mutation_scale=18 if wide else 10,
        shrinkA=0,
        shrinkB=0,
        linewidth=5 if wide else 1.6,
        zorder=1 if wide else 2,
    )
    head.set_color(paper.hairline if arrow.ghost else line(vector.colour, paper))
    ax.add_patch(head)
