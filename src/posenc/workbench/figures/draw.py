"""Draws a whole view: its title, its panels side by side, its readouts underneath."""

from pathlib import Path

from posenc.workbench.figures import ink
from posenc.workbench.figures.heatmap import dress_scale, heatmap, shaded
from posenc.workbench.figures.ink import Axes, Figure, inked
from posenc.workbench.figures.lines import lines
from posenc.workbench.figures.plane import plane
from posenc.workbench.views.view import Heatmap, Lines, Plane, View

ONE_ROW, ACROSS = 5, 4
"""Up to five panels share a row; more go four to a row."""
SHOWN = 8
"""Readouts under a figure, at most."""


def paint(panel: Heatmap | Lines | Plane, ax: Axes | None = None) -> Axes:
    """Paint one panel by its kind, on ``ax`` or on a figure of its own; returns the axes."""
    if isinstance(panel, Heatmap):
        return heatmap(panel, ax)
    if isinstance(panel, Lines):
        return lines(panel, ax)
    return plane(panel, ax)


@inked
def draw(view: View) -> Figure:
    """The view as a figure of its own."""
    count = len(view.panels)
    columns = count if count <= ONE_ROW else ACROSS
    rows = -(-count // columns)
    width = ink.WIDTH if count == 1 else 9.0
    height = ink.HEIGHT if count <= 2 else 0.9 + 2.6 * rows
    axes = ink.sheet(columns, rows, width=width, height=height)
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    figure.suptitle(view.title, x=0.012, ha="left", fontsize=ink.TEXT + 2)
    heatmaps = [p for p in view.panels if isinstance(p, Heatmap)]
    if count > 1 and len(heatmaps) == count and len({(p.scale, p.limit) for p in heatmaps}) == 1:
        images = [shaded(p, ax) for p, ax in zip(heatmaps, axes, strict=False)]
        bar = figure.colorbar(images[0], ax=axes[:count], pad=0.01, fraction=0.03)
        dress_scale(bar, heatmaps[0])
        bar.set_label(heatmaps[0].unit)
        if len({(p.rows, p.columns) for p in heatmaps}) == 1:  # one set of names serves all
            for ax in axes[:count]:
                ax.label_outer()
    else:
        for i, (panel, ax) in enumerate(zip(view.panels, axes, strict=False)):
            if isinstance(panel, Plane) and i > 0:
                plane(panel, ax, names=not isinstance(view.panels[0], Plane))
            else:
                paint(panel, ax)
    for panel, ax in zip(view.panels, axes, strict=False):
        if count > 1:
            ax.set_title(panel.name, fontsize=ink.TEXT)
    for spare in axes[count:]:
        spare.set_visible(False)
    if view.readouts:
        figure.supxlabel(_readouts(view), x=0.012, ha="left", fontsize=ink.SMALL)
    return figure


def _readouts(view: View) -> str:
    """The first readouts, two a line."""
    items = [f"{name}: {_number(value)}" for name, value in list(view.readouts.items())[:SHOWN]]
    return "\n".join("    ".join(items[i : i + 2]) for i in range(0, len(items), 2))


def _number(value: float | str) -> str:
    """Six digits, thin spaces between thousands, a real minus; powers of ten where digits would be noise."""
    if isinstance(value, str):
        return value
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.1e}".replace("-", "−")
    decimals = 0 if abs(value) >= 1e5 else max(0, 6 - len(str(int(abs(value)))))
    text = f"{value:,.{min(decimals, 6)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace(",", "\u2009").replace("-", "−")


def save(view: View, path: str | Path) -> Path:
    """Draw and write to ``path``; its ending says the format (svg, png, pdf)."""
    return ink.write(draw(view), path)
