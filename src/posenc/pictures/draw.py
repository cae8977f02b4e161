"""Draws a whole view: its title, its panels side by side, its readouts underneath; on light or dark paper."""

from pathlib import Path

from posenc.pictures import ink
from posenc.pictures.compose import scene
from posenc.pictures.heatmap import heatmap, scale
from posenc.pictures.ink import Axes, Figure
from posenc.pictures.lines import lines
from posenc.pictures.palette import LIGHT, Paper
from posenc.pictures.plane import plane
from posenc.pictures.scene import Chart, Disc, Map, Scene
from posenc.pictures.view import Heatmap, Lines, Plane, View

ONE_ROW, ACROSS = 5, 4
"""Up to five panels share a row; more go four to a row."""
NARROW = 3.7
"""Inches of a figure for a phone: its text is as large as on paper, its panels stand under one another."""
LINE = 0.14
"""Inches that a line of readouts adds to a figure."""
NAMED = 0.24
"""Inches that a name at a curve's end takes."""
ROW = 0.15
"""Inches that a name of a matrix's row takes."""
SHOWN = 8
"""Readouts under a figure, at most."""


def draw(view: View, paper: Paper = LIGHT, *, narrow: bool = False) -> Figure:
    """The view as a figure of its own."""
    made = scene(view)
    count = len(made.panels)
    across = 1 if narrow and count <= ACROSS else 2 if narrow else count if count <= ONE_ROW else ACROSS
    down = -(-count // across)
    width = NARROW if narrow else ink.WIDTH if count == 1 else 9.0
    height = 0.9 + 2.6 * down if narrow or count > 2 else ink.HEIGHT
    said = _readouts(made, width, 1 if narrow else 2)
    names = (
        NAMED * len(p.curves) if isinstance(p, Chart) else ROW * len(p.rows.ticks)
        for p in made.panels
        if not isinstance(p, Disc)
    )
    height = max(height, 1.0 + down * max(names, default=0.0))
    height += LINE * max(0, said.count("\n") - (0 if narrow else 1))
    with ink.ink(paper):
        axes = ink.sheet(across, down, width=width, height=height)
        figure = axes[0].get_figure(root=True)
        assert figure is not None
        figure.suptitle(ink.folded(made.title, width, ink.TEXT + 2), x=0.012, ha="left", fontsize=ink.TEXT + 2)
        _panels(made, axes[:count], paper)
        for panel, ax in zip(made.panels, axes, strict=False):
            if count > 1:
                inches = width / across * (0.75 if across > 1 else 1.0)
                ax.set_title(ink.folded(panel.name, inches), fontsize=ink.TEXT)
        for spare in axes[count:]:
            spare.set_visible(False)
        figure.supxlabel(said, x=0.012, ha="left", fontsize=ink.SMALL)
    return figure


def _panels(made: Scene, axes: list[Axes], paper: Paper) -> None:
    """Every panel on its axes; matrices on one scale share a bar, others have one each."""
    images = {}
    for i, (panel, ax) in enumerate(zip(made.panels, axes, strict=True)):
        if isinstance(panel, Map):
            images[i] = heatmap(panel, made.bars[panel.bar], ax, paper)
        elif isinstance(panel, Chart):
            lines(panel, ax, paper)
        else:
            plane(panel, ax, paper, names=i == 0 or not isinstance(made.panels[0], Disc))
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    if len(images) == len(axes) > 1 and len(made.bars) == 1:
        scale(figure, images[0], made.bars[0], axes)
        if len({(p.rows, p.columns) for p in made.panels if isinstance(p, Map)}) == 1:
            for ax in axes:  # one set of names serves all
                ax.label_outer()
        return
    for i, image in images.items():
        panel = made.panels[i]
        assert isinstance(panel, Map)
        scale(figure, image, made.bars[panel.bar], axes[i], panel.name if len(axes) == 1 else "")


def paint(panel: Heatmap | Lines | Plane, ax: Axes | None = None, paper: Paper = LIGHT) -> Axes:
    """Paint one panel of a view, on ``ax`` or on a figure of its own; returns the axes."""
    made = scene(View("", (panel,)))
    with ink.ink(paper):
        ax = ink.sheet()[0] if ax is None else ax
        _panels(made, [ax], paper)
    return ax


def _readouts(made: Scene, width: float, a_line: int) -> str:
    """The first readouts, so many a line, in lines that fit the figure."""
    items = [f"{name}: {text}" for name, text in made.readouts[:SHOWN]]
    lines = ["    ".join(items[i : i + a_line]) for i in range(0, len(items), a_line)]
    return "\n".join(ink.folded(line, width, ink.SMALL) for line in lines)


def save(view: View, path: str | Path, paper: Paper = LIGHT, *, narrow: bool = False) -> Path:
    """Draw and write to ``path``; its ending says the format (svg, png, pdf)."""
    return ink.write(draw(view, paper, narrow=narrow), path)
