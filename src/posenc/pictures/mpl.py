"""What every painter shares: type, sizes, axes, colour maps, labels at line ends, and saving.

Figures are matplotlib's own objects, never pyplot's, so that nothing outlives them. Identical input gives
identical bytes: the bundled typeface, no date, and a fixed salt for SVG names.
"""

import io
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from posenc.errors import InvalidArgument, MissingExtra
from posenc.pictures.colours import steps
from posenc.pictures.palette import LIGHT, Paper
from posenc.pictures.scene import Bar

try:
    import matplotlib
except ModuleNotFoundError as error:  # the one home of matplotlib in the project
    raise MissingExtra("matplotlib", "plot") from error
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure

Colour = str | tuple[float, ...]

WIDTH, HEIGHT = 7.0, 4.2
"""Inches of a figure with one panel: a page column."""
TEXT, SMALL = 9.0, 8.0
"""Points of axis names and titles, and of the smallest text."""
DPI = 150
PANEL_HEIGHT = 0.7
"""Share of its height that a panel keeps beside its title and names."""
FORMATS: dict[str, tuple[str, dict[str, None]]] = {
    "svg": ("svg", {"Date": None}),
    "png": ("agg", {"Software": None}),
    "pdf": ("pdf", {"CreationDate": None}),
}
"""matplotlib's backend for each, and what that would say of the day or the machine."""

STYLE: dict[str, object] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": TEXT,
    "axes.unicode_minus": True,
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
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "svg.fonttype": "path",
    "svg.hashsalt": "posenc",
}
LEADER = {"arrowstyle": "-", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 1, "relpos": (0, 0.5)}
"""A line from a curve's end to the left of its name, so that it runs through no other."""

_PAPER = ("axes.facecolor", "figure.facecolor")
_INK = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")

_lock = threading.RLock()


@contextmanager
def styled(paper: Paper = LIGHT) -> Iterator[None]:
    """Draw in our style. matplotlib's settings belong to the process, so one thread draws at a time."""
    colours = dict.fromkeys(_PAPER, paper.paper) | dict.fromkeys(_INK, paper.ink)
    with _lock, matplotlib.rc_context(STYLE | colours):
        yield


def sheet(
    columns: int = 1, rows: int = 1, *, width: float = WIDTH, height: float = HEIGHT, ratios: Sequence[float] = ()
) -> list[Axes]:
    """Axes on a new figure of ``width`` × ``height`` inches, row by row; ``ratios`` are the columns' widths.

    Call it, and whatever paints, within ``styled()``.
    """
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, width_ratios=list(ratios) or None)
    return list(grid.flat)


def figure_of(ax: Axes) -> Figure:
    """The figure that these axes stand on."""
    figure = ax.get_figure(root=True)
    assert figure is not None, "these axes were removed from their figure"
    return figure


@lru_cache
def colour_map(bar: Bar, paper: Paper) -> Colormap:
    """A bar's colours as matplotlib has them; what has no value is left as paper."""
    colours = [tuple(v / 255 for v in step) for step in steps(bar.scale, paper)]
    return ListedColormap(colours, bar.scale).with_extremes(bad="none")


def inches(ax: Axes) -> tuple[float, float]:
    """Width and height before names and bars take their part."""
    box = ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
    return box.width, box.height


def wrapped(words: str, inches: float, size: float = TEXT) -> str:
    """Words on as many lines as they need to fit a width; a letter is about half as wide as it is high."""
    return textwrap.fill(words, max(12, int(inches * 72 / (0.56 * size))), break_long_words=False)


def shortened(words: str, inches: float) -> str:
    """A name short enough for this width; the rest is dots."""
    most = int(inches * 72 / (0.56 * SMALL))
    return words if len(words) <= most else words[: most - 1] + "…"


def mark(ax: Axes, x: float, place: float, caption: str) -> None:
    """A thin vertical line at x, ``place`` of the way across, with its caption at the top.

    Past the middle the caption stands left of its line, where no name of a curve's end can meet it.
    """
    colour = matplotlib.rcParams["text.color"]
    ax.axvline(x, color=colour, linewidth=0.7, zorder=0.5)
    late = place > 0.6
    ax.annotate(
        caption,
        (x, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-3 if late else 3, -2),
        textcoords="offset points",
        ha="right" if late else "left",
        va="top",
        fontsize=SMALL,
        color=colour,
    )


def label_ends(ax: Axes, ends: Sequence[tuple[float, str, Colour]]) -> None:
    """Write names to the right of the axes, each at its line's end, and a thin line to those that had to move.

    Args:
        ends: (height, 0 at the bottom and 1 at the top; text; colour) of every line.
    """
    height = ax.get_window_extent().height / ax.figure.dpi * 72
    gap = SMALL * 1.35 / (PANEL_HEIGHT * height)
    wanted = sorted(ends, key=lambda end: end[0])
    places = _spread([end[0] for end in wanted], gap)
    moved = [abs(at - end) > gap / 2 for at, (end, _, _) in zip(places, wanted, strict=True)]
    offset = 12 if any(moved) else 5  # beyond the lines that lead there
    for at, (end, words, colour), leads in zip(places, wanted, moved, strict=True):
        ax.annotate(
            words,
            (1, end),
            xycoords="axes fraction",
            xytext=(offset, (at - end) * height),
            textcoords="offset points",
            ha="left",
            va="center",
            fontsize=SMALL,
            color=colour,
            annotation_clip=False,
            arrowprops={**LEADER, "color": colour} if leads else None,
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


def rendered(drawing: Axes | Figure, kind: str = "svg") -> bytes:
    """The figure as bytes: ``"svg"``, ``"png"`` or ``"pdf"``."""
    if kind not in FORMATS:
        raise InvalidArgument(f"format {kind!r} is not one of {', '.join(FORMATS)}")
    figure = drawing if isinstance(drawing, Figure) else figure_of(drawing)
    backend, undated = FORMATS[kind]
    canvas, dots = figure.canvas, figure.dpi
    out = io.BytesIO()
    with styled():  # savefig draws once for the layout and once more for the file
        printer = import_module(f"matplotlib.backends.backend_{backend}").FigureCanvas(figure)
        getattr(printer, f"print_{kind}")(out, metadata=undated)
    figure.set_canvas(canvas)
    figure.dpi = dots  # a vector's canvas leaves its own
    return out.getvalue()


def write(drawing: Axes | Figure, path: str | Path) -> Path:
    """Save to ``path``; its ending says the format."""
    path = Path(path)
    if path.suffix[1:].lower() not in FORMATS:
        raise InvalidArgument(f"{str(path)!r} must end in .{', .'.join(FORMATS)}, which says its format")
    content = rendered(drawing, path.suffix.lstrip(".").lower())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
