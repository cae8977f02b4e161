"""Draws a whole view: its title, its panels side by side, its readouts underneath; on light or dark paper."""

import re
from dataclasses import dataclass
from pathlib import Path

from posenc.errors import UnknownName
from posenc.pictures import mpl
from posenc.pictures.colours import partners
from posenc.pictures.compose import compose
from posenc.pictures.heatmap import colour_bar, heatmap
from posenc.pictures.lines import lines
from posenc.pictures.mpl import Axes, Figure
from posenc.pictures.palette import DARK, LIGHT, Paper
from posenc.pictures.plane import plane
from posenc.pictures.scene import Chart, Disc, Map, Scene
from posenc.pictures.view import Heatmap, Lines, Plane, View

ONE_ROW, ACROSS = 5, 4
"""Up to five panels share a row; more go four to a row."""
NARROW = 3.7
"""Inches of a figure for a phone: its text is as large as on paper, its panels stand under one another."""
COLUMN = 3.3
"""Inches of a column of a paper with two; such a figure has no title, which the caption says."""
LINE = 0.14
"""Inches that a line of readouts adds to a figure."""
NAMED = 0.24
"""Inches that a name at a curve's end takes."""
ROW = 0.15
"""Inches that a name of a matrix's row takes."""
SHOWN = 8
"""Readouts under a figure, at most."""


def draw(view: View, paper: Paper = LIGHT, *, narrow: bool = False, column: bool = False) -> Figure:
    """The view as a figure of its own; for a phone, or for the column of a paper."""
    scene, narrow = compose(view), narrow or column
    count = len(scene.panels)
    across = 1 if narrow and count <= ACROSS else 2 if narrow else count if count <= ONE_ROW else ACROSS
    down = -(-count // across)
    width = COLUMN if column else NARROW if narrow else mpl.WIDTH if count == 1 else 9.0
    height = 0.9 + 2.6 * down if narrow or count > 2 else mpl.HEIGHT
    readouts = _readout_lines(scene, width, 1 if narrow else 2)
    names = (
        NAMED * len(p.curves) if isinstance(p, Chart) else ROW * len(p.rows.ticks)
        for p in scene.panels
        if not isinstance(p, Disc)
    )
    height = max(height, 1.0 + down * max(names, default=0.0))
    height += LINE * max(0, readouts.count("\n") - (0 if narrow else 1))
    with mpl.styled(paper):
        axes = mpl.sheet(across, down, width=width, height=height)
        figure = mpl.figure_of(axes[0])
        if not column:
            title = mpl.wrapped(scene.title, width, mpl.TEXT + 2)
            figure.suptitle(title, x=0.012, ha="left", fontsize=mpl.TEXT + 2)
        _panels(scene, axes[:count], paper)
        for panel, ax in zip(scene.panels, axes, strict=False):
            if count > 1:
                inches = width / across * (0.75 if across > 1 else 1.0)
                ax.set_title(mpl.wrapped(panel.name, inches), fontsize=mpl.TEXT)
        for spare in axes[count:]:
            spare.set_visible(False)
        figure.supxlabel(readouts, x=0.012, ha="left", fontsize=mpl.SMALL)
    return figure


def _panels(scene: Scene, axes: list[Axes], paper: Paper) -> None:
    """Every panel on its axes; matrices on one scale share a bar, others have one each."""
    images = {}
    for i, (panel, ax) in enumerate(zip(scene.panels, axes, strict=True)):
        if isinstance(panel, Map):
            images[i] = heatmap(panel, scene.bars[panel.bar], ax, paper)
        elif isinstance(panel, Chart):
            lines(panel, ax, paper)
        else:
            plane(panel, ax, paper, names=i == 0 or not isinstance(scene.panels[0], Disc))
    figure = mpl.figure_of(axes[0])
    if len(images) == len(axes) > 1 and len(scene.bars) == 1:
        colour_bar(figure, images[0], scene.bars[0], axes)
        if len({(p.rows, p.columns) for p in scene.panels if isinstance(p, Map)}) == 1:
            for ax in axes:  # one set of names serves all
                ax.label_outer()
        return
    for i, image in images.items():
        panel = scene.panels[i]
        assert isinstance(panel, Map)
        colour_bar(figure, image, scene.bars[panel.bar], axes[i], panel.name if len(axes) == 1 else "")


def paint(panel: Heatmap | Lines | Plane, ax: Axes | None = None, paper: Paper = LIGHT) -> Axes:
    """Paint one panel of a view, on ``ax`` or on a figure of its own; returns the axes."""
    scene = compose(View("", (panel,)))
    with mpl.styled(paper):
        ax = mpl.sheet()[0] if ax is None else ax
        _panels(scene, [ax], paper)
    return ax


def _readout_lines(scene: Scene, width: float, a_line: int) -> str:
    """The first readouts, so many a line, in lines that fit the figure."""
    items = [f"{name}: {text}" for name, text in scene.readouts[:SHOWN]]
    lines = ["    ".join(items[i : i + a_line]) for i in range(0, len(items), a_line)]
    return "\n".join(mpl.wrapped(line, width, mpl.SMALL) for line in lines)


def save(view: View, path: str | Path, paper: Paper = LIGHT, *, narrow: bool = False) -> Path:
    """Draw and write to ``path``; its ending says the format (svg, png, pdf)."""
    return mpl.write(draw(view, paper, narrow=narrow), path)


def both_papers(view: View, *, narrow: bool = False, png: Path | None = None) -> tuple[bytes, bytes]:
    """The figure on light paper and on dark; the light one also as pixels in a file."""
    figure = draw(view, narrow=narrow)
    light = mpl.rendered(figure)
    if png is not None:
        figure.set_layout_engine("none")  # everything stands where it belongs
        mpl.write(figure, png)
    if any(isinstance(panel, Heatmap) and panel.scale == "signed" for panel in view.panels):
        return light, mpl.rendered(draw(view, DARK, narrow=narrow))  # zero is paper: every cell has another colour
    return light, recoloured(light)


def recoloured(svg: bytes) -> bytes:
    """A drawing on light paper with every colour's partner on dark paper."""
    dark = {colour.encode(): other.encode() for colour, other in partners().items()}
    return re.sub(rb"(?<=: )#[0-9a-f]{6}\b", lambda match: dark.get(match[0], match[0]), svg)


@dataclass(frozen=True)
class Drawing:
    """A view in a notebook, which shows it as a figure."""

    view: View

    def save(self, path: str | Path, width: str = "page") -> Path:
        """Write it as wide as a ``"page"`` or as the ``"column"`` of a paper; the name's end decides the format."""
        if width not in ("page", "column"):
            raise UnknownName("width", width, ("page", "column"))
        return mpl.write(draw(self.view, column=width == "column"), path)

    def __repr__(self) -> str:
        return f"{self.view.title}; it draws itself in a notebook, and save(path) writes it"

    def _repr_html_(self) -> str:
        return mpl.rendered(draw(self.view)).decode()
