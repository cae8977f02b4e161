"""The hand that draws every figure: type, sizes, axes, colour maps, labels at line ends, and saving.

Figures are matplotlib's own objects, never pyplot's, so that nothing outlives them. Identical input gives
identical bytes: the bundled typeface, no date, and a fixed salt for SVG names.
"""

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from posenc.errors import InvalidArgument, MissingExtra
from posenc.workbench.palette import HAIRLINE, INK, MAGNITUDE, NEGATIVE, PAPER, POSITIVE

try:
    import matplotlib
except ModuleNotFoundError as error:  # the one home of matplotlib in the project
    raise MissingExtra("matplotlib", "plot") from error
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

P = ParamSpec("P")
R = TypeVar("R")
Colour = str | tuple[float, ...]

WIDTH, HEIGHT = 7.0, 4.2
"""Inches of a figure with one panel: a page column."""
TEXT, SMALL = 9.0, 8.0
"""Points of axis names and titles, and of the smallest text."""
DPI = 150
FORMATS = ("svg", "png", "pdf")

STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": TEXT,
    "axes.unicode_minus": True,
    "axes.facecolor": PAPER,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "axes.labelsize": TEXT,
    "axes.titlesize": TEXT + 1,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": HAIRLINE,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "svg.fonttype": "path",
    "svg.hashsalt": "posenc",
}

_pen = threading.RLock()


@contextmanager
def ink() -> Iterator[None]:
    """Draw in our style. matplotlib's settings belong to the process, so one thread holds the pen at a time."""
    with _pen, matplotlib.rc_context(STYLE):
        yield


def inked(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that draws: it runs in our style."""

    @wraps(draw)
    def in_style(*args: P.args, **kwargs: P.kwargs) -> R:
        with ink():
            return draw(*args, **kwargs)

    return in_style


@inked
def sheet(
    columns: int = 1, rows: int = 1, *, width: float = WIDTH, height: float = HEIGHT, ratios: Sequence[float] = ()
) -> list[Axes]:
    """Axes on a new figure of ``width`` × ``height`` inches, row by row; ``ratios`` are the columns' widths."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, width_ratios=list(ratios) or None)
    return list(grid.flat)


def on(ax: Axes | None, *, width: float = WIDTH, height: float = HEIGHT) -> Axes:
    """The axes that were given, or new ones on a figure of their own."""
    return sheet(width=width, height=height)[0] if ax is None else ax


def signed() -> Colormap:
    """Blue below zero, paper at zero, red above. Use with symmetric limits."""
    return LinearSegmentedColormap.from_list("signed", [NEGATIVE, PAPER, POSITIVE])


def magnitude() -> Colormap:
    """Dark to light, for magnitudes and similarities."""
    return LinearSegmentedColormap.from_list("magnitude", MAGNITUDE)


def sequence() -> Colormap:
    """Purple to green, for curves that are told apart by their order and have no colour of their own."""
    return matplotlib.colormaps["viridis"]


def mark(ax: Axes, x: float, caption: str) -> None:
    """A thin vertical line at x with its caption at the top, such as "trained to here".

    Past the middle the caption stands left of its line, where no name of a curve's end can meet it.
    """
    ax.axvline(x, color=INK, linewidth=0.7, zorder=0.5)
    bottom = ax.get_ylim()[0]
    late = (ax.transData + ax.transAxes.inverted()).transform((x, bottom))[0] > 0.6
    ax.annotate(
        caption,
        (x, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-3 if late else 3, -2),
        textcoords="offset points",
        ha="right" if late else "left",
        va="top",
        fontsize=SMALL,
        color=INK,
    )


def mark_cell(ax: Axes, corner: tuple[float, float], width: float, height: float) -> None:
    """An outline round cells of a heatmap."""
    ax.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=INK, linewidth=1.2))


def label_ends(ax: Axes, ends: Sequence[tuple[float, str, Colour]]) -> None:
    """Write names to the right of the axes, each at its line's last y; call when the limits are final.

    Args:
        ends: (y in data, text, colour) of every line. Names that would touch are moved apart.
    """
    to_axes = ax.transData + ax.transAxes.inverted()
    height = ax.get_window_extent().height / ax.figure.dpi * 72
    gap = SMALL * 1.35 / height
    left = ax.get_xlim()[0]
    wanted = sorted((float(to_axes.transform((left, y))[1]), text, colour) for y, text, colour in ends)
    places = _spread([min(max(at, 0.0), 1.0) for at, _, _ in wanted], gap)
    for at, (_, text, colour) in zip(places, wanted, strict=True):
        ax.annotate(
            text,
            (1, at),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            fontsize=SMALL,
            color=colour,
            annotation_clip=False,
        )


def _spread(places: list[float], gap: float) -> list[float]:
    """The nearest ascending places at least ``gap`` apart: touching runs share their mean's surroundings."""
    runs: list[list[float]] = []
    for place in places:
        runs.append([place])
        while len(runs) > 1 and _start(runs[-1], gap) < _start(runs[-2], gap) + len(runs[-2]) * gap:
            last = runs.pop()
            runs[-1] += last
    return [_start(run, gap) + i * gap for run in runs for i in range(len(run))]


def _start(run: list[float], gap: float) -> float:
    """Where a run of labels begins when it is centred on the mean of what they wanted."""
    return sum(run) / len(run) - (len(run) - 1) * gap / 2


@inked
def rendered(drawing: Axes | Figure, kind: str = "svg") -> bytes:
    """The figure as bytes: ``"svg"``, ``"png"`` or ``"pdf"``."""
    if kind not in FORMATS:
        raise InvalidArgument(f"format {kind!r} is not one of {', '.join(FORMATS)}")
    figure = drawing if isinstance(drawing, Figure) else drawing.get_figure(root=True)
    assert figure is not None, "these axes were removed from their figure"
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    out = io.BytesIO()
    figure.savefig(out, format=kind, metadata=undated[kind])
    return out.getvalue()


def write(drawing: Axes | Figure, path: str | Path) -> Path:
    """Save to ``path``; its ending says the format."""
    path = Path(path)
    content = rendered(drawing, path.suffix.lstrip(".").lower())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
