"""Paints curves with their names at their ends."""

import math

from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from posenc.workbench.figures.ink import Axes, Colour, inked, label_ends, mark, on, sequence
from posenc.workbench.palette import INK, PAPER, style
from posenc.workbench.views.view import Lines

DASHES = ((), (6, 2), (2, 1.5), (7, 2, 1.5, 2))
DECADES = 6
"""A logarithmic axis shows this many powers of ten below its top; more only where a whole curve lies lower."""
TICKED = 12
"""Up to this many points of a logarithmic axis each get a tick."""
MARKED = 40
"""Up to this many points each gets a marker."""


@inked
def lines(panel: Lines, ax: Axes | None = None) -> Axes:
    """Paint ``panel``: an encoding in its own colour, other curves from dark to light in their order."""
    ax = on(ax)
    ends = []
    for i, line in enumerate(panel.lines):
        colour, dash, marker = _hand(panel, i)
        y = line.values.detach().cpu().tolist()
        dots = marker if len(y) <= MARKED else ""
        (curve,) = ax.plot(panel.x.values, y, color=colour, marker=dots, markersize=3.5)
        if dash:
            curve.set_dashes(dash)
        if line.hollow:
            curve.set(markerfacecolor=PAPER, linewidth=0.8)
        if line.low is not None and line.high is not None:
            ax.fill_between(panel.x.values, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
        known = [v for v in y if not math.isnan(v)]
        if known:
            ends.append((known[-1], line.name, colour))
    if panel.y_log:
        ax.set_yscale("log")
        top = ax.get_ylim()[1]
        lowest = min((float(line.values.nan_to_num().max()) for line in panel.lines), default=top)
        ax.set_ylim(bottom=max(ax.get_ylim()[0], min(top / 10**DECADES, lowest / 3)))
        if ax.get_ylim()[1] < 100 * ax.get_ylim()[0]:  # too few powers of ten to read a value from
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())
    if panel.x.log:
        ax.set_xscale("log")
        if len(panel.x.values) <= TICKED:
            ax.set_xticks(panel.x.values, [short(x) for x in panel.x.values])
            ax.minorticks_off()
    elif all(float(x).is_integer() for x in panel.x.values):
        ax.xaxis.set_major_locator(MaxNLocator(9, integer=True))
    ax.margins(x=0.01)
    ax.set_xlabel(_named(panel.x.name, panel.x.unit, panel.x.log))
    ax.set_ylabel(_named(panel.y_name, panel.y_unit, panel.y_log))
    for x, caption in panel.marks:
        mark(ax, x, caption)
    if len(ends) > 1:
        label_ends(ax, ends)
    return ax


def short(x: float) -> str:
    """A tick's number in few signs: 512, 10⁶, 2·10⁹."""
    if abs(x) < 1e5:
        return f"{x:g}".replace("-", "−")
    digits, power = f"{x:.0e}".split("e+")
    raised = str(int(power)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digits == "1" else f"{digits}·10{raised}"


def _named(name: str, unit: str, log: bool) -> str:
    """An axis's name with its unit and, where it is one, the word that it is logarithmic."""
    said = ", ".join(part for part in (unit, "log scale" if log else "") if part)
    return f"{name} ({said})" if said else name


def _hand(panel: Lines, index: int) -> tuple[Colour, tuple[float, ...], str]:
    """Colour, dash and marker of a curve."""
    encodings, count = [line.encoding for line in panel.lines], len(panel.lines)
    if encodings[index]:
        own = style(encodings[index], encodings)
        return own.colour, own.dash, own.marker
    colour: Colour = INK if count == 1 else sequence()(0.75 * index / (count - 1))
    return colour, DASHES[index % len(DASHES)], "o"
