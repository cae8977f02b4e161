"""Paints a heatmap: signed values from blue over paper to red, magnitudes from dark to light."""

from typing import cast

import numpy as np
from matplotlib.image import AxesImage

from posenc.workbench.figures.ink import SMALL, Axes, inked, magnitude, mark_cell, on, signed
from posenc.workbench.palette import INK, PAPER
from posenc.workbench.views.view import Axis, Heatmap

WRITTEN = 12
"""Up to this many rows and columns the numbers are written into the cells, where they fit."""
CELL = 0.36, 0.17
"""Inches that a cell must have, across and down, to hold a number."""


@inked
def heatmap(panel: Heatmap, ax: Axes | None = None, *, scale: bool = True) -> Axes:
    """Paint ``panel``; ``scale`` puts the scale of colours beside it."""
    ax = on(ax)
    image = shaded(panel, ax)
    if scale:
        bar = ax.figure.colorbar(image, ax=ax, pad=0.02, fraction=0.05)
        dress_scale(bar, panel)
    return ax


def shaded(panel: Heatmap, ax: Axes) -> AxesImage:
    """The matrix itself with its axes, marks and, when it is small, its numbers; the scale is the caller's."""
    values = panel.values.detach().cpu().double().numpy()
    low, high = limits(panel, values)
    colours = (signed() if panel.scale == "signed" else magnitude()).with_extremes(bad=PAPER)
    square = values.shape[0] == values.shape[1]
    image = ax.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="equal" if square else "auto")
    for axis, along in ((panel.columns, "x"), (panel.rows, "y")):
        _ticks(ax, axis, along)
    ax.set_xlabel(panel.columns.label)
    ax.set_ylabel(panel.rows.label)
    for side in ax.spines.values():
        side.set_visible(False)
    for column in panel.marked_columns:
        mark_cell(ax, (column - 0.5, -0.5), 1, values.shape[0])
    for row in panel.marked_rows:
        mark_cell(ax, (-0.5, row - 0.5), values.shape[1], 1)
    if max(values.shape) <= WRITTEN and _roomy(ax, *values.shape):
        _numbers(ax, values, image)
    return image


def limits(panel: Heatmap, values: np.ndarray) -> tuple[float, float]:
    """Where the colours end: symmetric about 0 for signed values."""
    if panel.scale == "signed":
        end = panel.limit or float(np.nanmax(np.abs(values))) or 1.0
        return -end, end
    if panel.limit is not None:
        return 0.0, panel.limit
    return float(np.nanmin(values)), float(np.nanmax(values))


def dress_scale(bar: object, panel: Heatmap) -> None:
    """A scale without a frame, named and with its unit."""
    bar.outline.set_visible(False)  # type: ignore[attr-defined]
    name = f"{panel.name} ({panel.unit})" if panel.unit else panel.name
    bar.set_label(name, fontsize=SMALL)  # type: ignore[attr-defined]


def _ticks(ax: Axes, axis: Axis, along: str) -> None:
    """Labels where the axis has them; otherwise at most nine of its values."""
    count = len(axis.values)
    step = 1 if axis.labels or count <= 9 else _nice(count / 8)
    at = list(range(0, count, step))
    names = list(axis.labels) or [f"{axis.values[i]:g}" for i in at]
    if along == "x":
        ax.set_xticks(at, names, rotation=90 if axis.labels and count > 8 else 0)
    else:
        ax.set_yticks(at, names)


def _nice(step: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50 …"""
    power = 10 ** int(np.floor(np.log10(step)))
    return int(next(m * power for m in (1, 2, 5, 10) if m * power >= step))


def _roomy(ax: Axes, rows: int, columns: int) -> bool:
    """Whether every cell has room for a number."""
    box = ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
    return box.width / columns >= CELL[0] and box.height / rows >= CELL[1]


def _numbers(ax: Axes, values: np.ndarray, image: AxesImage) -> None:
    """The value of every cell in the ink that can be read on its colour."""
    for row, column in np.ndindex(*values.shape):
        value = values[row, column]
        if np.isnan(value):
            continue
        red, green, blue, _ = cast(tuple[float, float, float, float], image.to_rgba(value))
        dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.45
        text = f"{value:.2f}".replace("-", "−") if abs(value) >= 0.005 else "0"
        ax.text(column, row, text, ha="center", va="center", fontsize=SMALL, color=PAPER if dark else INK)
