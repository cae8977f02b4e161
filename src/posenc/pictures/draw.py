"""Draws views with matplotlib, for files and notebooks. On web pages, the browser draws the views.

Figures are matplotlib objects created without pyplot, so that no global list keeps figures alive. Identical input
gives identical bytes: figures use matplotlib's bundled font, no date, and a fixed salt for SVG ids.
"""

import io
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.errors import InvalidArgument, MissingExtra, UnknownName
from posenc.pictures.colours import DARK_TEXT, LIGHT_TEXT, dark_text, line, steps
from posenc.pictures.compose import compose
from posenc.pictures.numbers import readout
from posenc.pictures.palette import LIGHT, Paper
from posenc.pictures.scene import Chart, Disc, Map, Tick
from posenc.pictures.view import View

try:
    import matplotlib
except ModuleNotFoundError as error:  # the only import of matplotlib in the project
    raise MissingExtra("matplotlib", "plot") from error
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

PAGE, COLUMN = 7.0, 3.3
"""The widths in inches of a page and of a column in a two-column paper; figures in columns have no title."""
ACROSS = 4
"""The number of panels per row."""
MARKED = 40
"""The largest number of points of a curve for which every point has a marker."""
LEAST = 5.0
"""The smallest font size of a cell's number, in points."""
UNDATED: dict[str, dict[str, None]] = {
    "svg": {"Date": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
}
"""The file formats, with the metadata keys to omit because they contain the date or the software."""
STYLE: dict[str, object] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 150,
    "legend.frameon": False,
    "lines.markersize": 4,
    "svg.fonttype": "path",
    "svg.hashsalt": "posenc",
}
_lock = threading.RLock()


@contextmanager
def styled(paper: Paper = LIGHT) -> Iterator[None]:
    """Draw in posenc's style. Because matplotlib's settings are global, only one thread draws at a time."""
    ink = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
    colours = dict.fromkeys(("axes.facecolor", "figure.facecolor"), paper.paper) | dict.fromkeys(ink, paper.ink)
    with _lock, matplotlib.rc_context(STYLE | colours):
        yield


def draw(view: View, paper: Paper = LIGHT, *, column: bool = False) -> Figure:
    """Draw a view as a figure: title, panels side by side, and readouts below."""
    panels = compose(view)
    across = 1 if column else min(len(panels), ACROSS)
    down = -(-len(panels) // across)
    width = COLUMN if column else PAGE if across == 1 else 1.4 * PAGE
    names = max((len(panel.rows.ticks) for panel in panels if isinstance(panel, Map)), default=0)
    readouts = "\n".join(
        textwrap.fill(f"{name}: {readout(value)}", int(17 * width)) for name, value in view.readouts.items()
    )
    height = 1.2 + down * max(2.4, 0.16 * names) + 0.14 * readouts.count("\n")
    with styled(paper):
        figure = Figure((width, height), layout="constrained")
        axes = list(figure.subplots(down, across, squeeze=False).flat)
        for panel, given, ax in zip(panels, view.panels, axes, strict=False):
            PAINTERS[type(panel)](panel, ax, paper)
            if len(panels) > 1:
                ax.set_title(textwrap.fill(given.name, int(14 * width / across)))
        for spare in axes[len(panels) :]:
            spare.set_visible(False)
        if isinstance(panels[0], Disc):
            axes[0].legend(loc="upper left", bbox_to_anchor=(0, -0.15))
        if not column:
            figure.suptitle(textwrap.fill(view.title, int(13 * width)), x=0.01, ha="left", fontsize=10)
        figure.supxlabel(readouts, x=0.01, ha="left", fontsize=8)
    return figure


def _map(panel: Map, ax: Axes, paper: Paper) -> None:
    """Draw a matrix with its colour bar, and its numbers if they fit. Cells without a value are blank."""
    heatmap, bar = panel.heatmap, panel.bar
    rows, columns = heatmap.values.shape
    colours = ListedColormap([tuple(v / 255 for v in step) for step in steps(heatmap.scale, paper)])
    image = ax.imshow(
        panel.painted.detach().cpu().double().numpy(),
        cmap=colours.with_extremes(bad="none"),
        vmin=bar.low,
        vmax=bar.high,
        aspect="equal" if rows == columns else "auto",
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
    )
    _ticks(ax, panel.columns.ticks, panel.rows.ticks, panel.columns.label, panel.rows.label)
    for column in heatmap.marked_columns:
        ax.axvspan(column - 0.5, column + 0.5, fill=False, edgecolor=paper.ink)
    for row in heatmap.marked_rows:
        ax.axhspan(row - 0.5, row + 0.5, fill=False, edgecolor=paper.ink)
    longest = max([1, *(len(text) for row in panel.texts for text in row)])
    size = min(8.0, 80 * ax.bbox.width / ax.figure.dpi / columns / longest)
    shades = (255 * image.to_rgba(heatmap.values.double().numpy())).tolist()
    for row, texts in enumerate(panel.texts if size >= LEAST else ()):
        for column, text in enumerate(texts):
            ink = DARK_TEXT if dark_text(shades[row][column][:3]) else LIGHT_TEXT
            ax.text(column, row, text, ha="center", va="center", fontsize=size, color=ink)
    if bar.legend:
        scale = ax.figure.colorbar(image, ax=ax, label=bar.label)
        scale.ax.set_ylim(*bar.shown)
        scale.set_ticks([at for at, _ in bar.ticks], labels=[text for _, text in bar.ticks])


def _chart(panel: Chart, ax: Axes, paper: Paper) -> None:
    """Draw curves with bands, levels and marks, and a legend that names them."""
    lines, at = panel.lines, panel.lines.x.values
    for curve in panel.curves:
        colour, every, hollow = line(curve.colour, paper), lines.between + 1, curve.line.hollow
        ax.plot(
            at,
            curve.line.values.tolist(),
            color=colour,
            linestyle="none" if lines.apart else (0, curve.dash) if curve.dash else "-",
            linewidth=0.8 if hollow else 1.5,
            marker=curve.marker if lines.apart or len(at) // every <= MARKED else "",
            markevery=every,
            markerfacecolor=paper.paper if hollow else colour,
            label=curve.line.name,
        )
        if curve.line.low is not None and curve.line.high is not None:
            low, high = curve.line.low.tolist(), curve.line.high.tolist()
            ax.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    for value, words in lines.levels:
        ax.axhline(value, color=paper.quiet, linewidth=0.8, linestyle="--", label=words)
    for value, words in lines.marks:
        ax.axvline(value, color=paper.ink, linewidth=0.8, label=words)
    ax.set(xscale="log" if panel.x.log else "linear", yscale="log" if panel.y.log else "linear")
    ax.set(xlim=(panel.x.low, panel.x.high), ylim=(panel.y.low, panel.y.high))
    _ticks(ax, panel.x.ticks, panel.y.ticks, panel.x.label, panel.y.label)
    if len(ax.get_legend_handles_labels()[0]) > 1:
        ax.legend()


def _disc(panel: Disc, ax: Axes, paper: Paper) -> None:
    """Draw vectors from the origin of a plane."""
    for vector in panel.vectors:
        arrow = vector.arrow
        ax.quiver(
            *(0, 0, arrow.x, arrow.y),
            angles="xy",
            scale_units="xy",
            scale=1,
            color=line(vector.colour, paper),
            alpha=0.4 if arrow.ghost else 1.0,
            label=arrow.name,
        )
    limits = -panel.plane.limit, panel.plane.limit
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    _ticks(ax, panel.ticks, panel.ticks, "", "")


PAINTERS: dict[type, Callable[[Any, Axes, Paper], None]] = {Map: _map, Chart: _chart, Disc: _disc}
"""The functions that draw each kind of panel."""


def _ticks(ax: Axes, across: tuple[Tick, ...], up: tuple[Tick, ...], x_label: str, y_label: str) -> None:
    """Draw ticks and axis names. Column names that would touch are drawn vertically."""
    crowded = sum(len(text) + 1.5 for _, text in across) * 0.07 > ax.bbox.width / ax.figure.dpi
    ax.set_xticks([at for at, _ in across], [text for _, text in across], rotation=90 if crowded else 0)
    ax.set_yticks([at for at, _ in up], [text for _, text in up])
    ax.minorticks_off()
    ax.set(xlabel=x_label, ylabel=y_label)


def rendered(figure: Figure, kind: str = "svg") -> bytes:
    """Return a figure as the bytes of an ``"svg"``, ``"png"`` or ``"pdf"`` file."""
    out = io.BytesIO()
    with styled():
        figure.savefig(out, format=kind, metadata=UNDATED[kind])
    return out.getvalue()


def write(figure: Figure, path: str | Path) -> Path:
    """Save a figure to ``path``, whose suffix determines the format."""
    path, kind = Path(path), Path(path).suffix[1:].lower()
    if kind not in UNDATED:
        raise InvalidArgument(f"{str(path)!r} must end in .{', .'.join(UNDATED)}, which determines the file format")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(rendered(figure, kind))
    return path


@dataclass(frozen=True)
class Drawing:
    """A view that a notebook displays as a figure."""

    view: View

    def save(self, path: str | Path, width: str = "page") -> Path:
        """Save the view as a figure; ``width`` is ``"page"`` or ``"column"``. The path's suffix sets the format."""
        if width not in ("page", "column"):
            raise UnknownName("width", width, ("page", "column"))
        return write(draw(self.view, column=width == "column"), path)

    def __repr__(self) -> str:
        return f"{self.view.title}; a notebook displays it, and save(path) writes it"

    def _repr_html_(self) -> str:
        return rendered(draw(self.view)).decode()
