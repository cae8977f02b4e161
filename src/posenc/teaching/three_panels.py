"""The three-panel figure of the lesson: heatmap, similarity, waves; 18 × 5 inches at 150 dots per inch."""

from posenc.pictures import mpl
from posenc.pictures.draw import paint
from posenc.pictures.mpl import Figure
from posenc.pictures.view import Heatmap, Lines
from posenc.teaching.views import sinusoidal


def three_panels(width: int = 128, length: int = 50, shown: int = 64) -> Figure:
    """Positions × the first ``shown`` dimensions; cosine of every two positions; waves of five dimensions.

    The lesson paints the first panel with RdBu, negative red. Ours is blue below zero here as everywhere.
    """
    with mpl.styled():
        axes = mpl.sheet(3, width=18, height=5)
    code = sinusoidal.heatmap(width, length, transposed=True).panels[0]
    assert isinstance(code, Heatmap)
    dims = type(code.columns)("dimension", code.columns.values[:shown])
    first = Heatmap(code.name, code.values[:, :shown], code.rows, dims, code.scale, limit=code.limit)
    single = tuple(dimension for dimension in (0, 1, 10, 20, 50) if dimension < width)
    waves = sinusoidal.waves(width, single, last=99).panels[0]
    assert isinstance(waves, Lines)
    similar = sinusoidal.similarity(sinusoidal.table(width, range(length), 10_000.0))
    titles = "Sinusoidal code", "Cosine of two positions' codes", "Single dimensions"
    panels: tuple[Heatmap | Lines, ...] = first, similar, waves
    for ax, panel, title in zip(axes, panels, titles, strict=True):
        with mpl.styled():
            paint(panel, ax).set_title(title)
    return mpl.figure_of(axes[0])
