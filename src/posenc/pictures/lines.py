"""Paints curves with their names at their ends, or where they leave the picture."""

from dataclasses import replace

from matplotlib.ticker import NullLocator

from posenc.pictures.colours import line, text
from posenc.pictures.mpl import PANEL_HEIGHT, SMALL, Axes, inches, label_ends, mark, shortened, wrapped
from posenc.pictures.palette import Paper
from posenc.pictures.scene import AxisScale, Chart, Curve

MARKED = 40
"""Up to this many points each gets a marker."""
NAMES = 0.45
"""Names at the ends take at most this share of the width."""
EARLY = 0.97
"""A curve that leaves the picture before this share of its width is named where it does."""


def lines(panel: Chart, ax: Axes, paper: Paper) -> Axes:
    """Paint ``panel`` on ``ax``."""
    places = [panel.x.place(value) or 0.0 for value, _ in panel.marks]
    captions = [_caption(ax, words, place) for (_, words), place in zip(panel.marks, places, strict=True)]
    _dress(ax, panel, max((words.count("\n") + 1 for words in captions), default=0))
    for curve in panel.curves:
        colour = line(curve.colour, paper)
        real = slice(None, None, curve.between + 1)
        dots = curve.marker if panel.apart or len(panel.at[real]) <= MARKED else ""
        (drawn,) = ax.plot(panel.at, curve.values, color=colour, linestyle="none" if panel.apart else "-")
        ax.plot(
            panel.at[real],
            curve.values[real],
            color=colour,
            linestyle="none",
            marker=dots,
            markersize=3.5,
            markerfacecolor=paper.paper if curve.hollow else colour,
        )
        if curve.dash and not panel.apart:
            drawn.set_dashes(curve.dash)
        if curve.hollow:
            drawn.set_linewidth(0.8)
        if curve.low and curve.high:
            ax.fill_between(panel.at, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
    for value, _ in panel.levels:
        ax.axhline(value, color=paper.quiet, linewidth=0.7, linestyle=(0, (4, 3)), zorder=0.5)
    for (value, _), place, caption in zip(panel.marks, places, captions, strict=True):
        mark(ax, value, place, caption)
    if len(panel.curves) + len(panel.levels) > 1:
        _name(ax, panel, paper)
    return ax


def _caption(ax: Axes, words: str, place: float) -> str:
    """A mark's caption in lines that fit beside it."""
    return wrapped(words, 0.8 * inches(ax)[0] * max(place, 1 - place), SMALL)


def _dress(ax: Axes, panel: Chart, captions: int) -> None:
    """Axes and ticks; so many lines of captions stand above the highest value, where no curve can meet them."""
    above = 1.6 * captions * SMALL / 72 / (PANEL_HEIGHT * inches(ax)[1])
    for axis, along, length in zip((panel.x, panel.y), "xy", inches(ax), strict=True):
        if axis.log:
            ax.set(**{f"{along}scale": "log"})
        side = ax.xaxis if along == "x" else ax.yaxis
        side.set_ticks([at for at, _ in axis.ticks], labels=[words for _, words in axis.ticks])
        side.set_minor_locator(NullLocator())
        side.set_label_text(wrapped(axis.label, length))
        ax.set(**{f"{along}lim": _ends(axis, *((0.01, 0.01) if along == "x" else (0.02, 0.02 + above)))})


def _ends(axis: AxisScale, before: float, after: float) -> tuple[float, float]:
    """The axis with these shares of room, so that a curve along its end is not cut."""
    if axis.log:
        ratio = axis.high / axis.low
        return axis.low / ratio**before, axis.high * ratio**after
    length = axis.high - axis.low
    return axis.low - before * length, axis.high + after * length


def _name(ax: Axes, panel: Chart, paper: Paper) -> None:
    """Names of curves and levels at their ends; curves that lie on one another share a label."""
    y = replace(panel.y, low=ax.get_ylim()[0], high=ax.get_ylim()[1])
    together: dict[tuple[float | None, ...], list[Curve]] = {}
    for curve in panel.curves:
        together.setdefault(tuple(y.place(v) for v in curve.values), []).append(curve)
    levels = ((y.place(value), caption) for value, caption in panel.levels)
    ends = [(at, caption, paper.quiet) for at, caption in levels if at is not None]
    for places, curves in together.items():
        words = shortened(", ".join(curve.name for curve in curves), NAMES * inches(ax)[0])
        ink = text(curves[0].colour, paper)
        visible = [i for i, place in enumerate(places) if place is not None]
        if not visible:
            continue
        last, height = visible[-1], places[visible[-1]]
        across = panel.x.place(panel.at[last]) or 0.0
        if across < EARLY and height is not None and height < 0.1:
            ax.annotate(
                words,
                (panel.at[last], curves[0].values[last]),
                xytext=(4, 1),
                textcoords="offset points",
                fontsize=SMALL,
                color=ink,
            )
        elif height is not None:
            ends.append((height, words, ink))
    label_ends(ax, ends)
