"""Paints a matrix on its scene's scale of colours, with its numbers where they fit."""

import numpy as np
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from posenc.pictures.colours import DARK_TEXT, LIGHT_TEXT, dark_text
from posenc.pictures.mpl import SMALL, Axes, Figure, colour_map, inches, wrapped
from posenc.pictures.palette import Paper
from posenc.pictures.scene import Bar, Map

CELL = 0.17
"""Inches that a cell must have downwards to hold a number."""
PANEL_WIDTH = 0.85
"""Share of its width that a panel keeps beside its names and its bar."""


def heatmap(panel: Map, bar: Bar, ax: Axes, paper: Paper) -> AxesImage:
    """The matrix with its axes, marks and, when it is small, its numbers; the bar is the caller's."""
    painted = panel.values if panel.picture is None else panel.picture
    values = painted.detach().cpu().double().numpy()
    rows, columns = panel.values.shape
    image = ax.imshow(
        values,
        cmap=colour_map(bar, paper),
        vmin=bar.low,
        vmax=bar.high,
        aspect="equal" if rows == columns else "auto",
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
    )
    width, height = inches(ax)
    named = [text for _, text in panel.columns.ticks]
    crowded = len(named) > 1 and sum(len(t) + 1.5 for t in named) * SMALL * 0.6 / 72 > width
    ax.set_xticks([at for at, _ in panel.columns.ticks], named, rotation=90 if crowded else 0)
    ax.set_yticks([at for at, _ in panel.rows.ticks], [text for _, text in panel.rows.ticks])
    ax.set_xlabel(wrapped(panel.columns.label, width))
    ax.set_ylabel(wrapped(panel.rows.label, height))
    for side in ax.spines.values():
        side.set_visible(False)
    for column in panel.marked_columns:
        _outline(ax, (column - 0.5, -0.5), 1, rows, paper)
    for row in panel.marked_rows:
        _outline(ax, (-0.5, row - 0.5), columns, 1, paper)
    if panel.texts and _fits(panel, width / columns, height / rows):
        _numbers(ax, panel, image)
    return image


def colour_bar(figure: Figure, image: AxesImage, bar: Bar, axes: Axes | list[Axes], name: str = "") -> None:
    """The bar beside these axes: only the part of it that occurs, without a frame, named with its unit."""
    if not bar.legend:
        return
    scale = figure.colorbar(image, ax=axes, pad=0.02, fraction=0.05, aspect=25)
    scale.outline.set_visible(False)
    scale.ax.set_ylim(*bar.shown)
    scale.set_ticks([at for at, _ in bar.ticks], labels=[text for _, text in bar.ticks])
    scale.set_label(name or bar.label, fontsize=SMALL)


def _fits(panel: Map, width: float, height: float) -> bool:
    """Whether every number fits its cell, in inches; axes lose a part of theirs once names and bars are there."""
    longest = max(len(text) for row in panel.texts for text in row)
    return PANEL_WIDTH * width >= longest * SMALL * 0.64 / 72 and height >= CELL


def _outline(ax: Axes, corner: tuple[float, float], width: float, height: float, paper: Paper) -> None:
    ax.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=paper.ink, linewidth=1.2))


def _numbers(ax: Axes, panel: Map, image: AxesImage) -> None:
    """The number of every cell in the ink that can be read on its colour."""
    for (row, column), value in np.ndenumerate(panel.values.double().numpy()):
        if not np.isnan(value):
            colour = [round(255 * v) for v in image.to_rgba(value)[:3]]
            ink = DARK_TEXT if dark_text(colour) else LIGHT_TEXT
            text = panel.texts[row][column]
            ax.text(column, row, text, ha="center", va="center", fontsize=SMALL, color=ink)
