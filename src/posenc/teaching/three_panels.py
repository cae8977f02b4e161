"""The three-panel figure of the lesson: heatmap, similarity, waves; 18 × 5 inches at 150 dots per inch."""

from dataclasses import replace

from posenc.pictures.draw import Figure, draw
from posenc.pictures.view import Axis, Heatmap, View
from posenc.teaching.views import sinusoidal


def three_panels(width: int = 128, length: int = 50, shown: int = 64) -> Figure:
    """Positions × the first ``shown`` dimensions; cosine of every two positions; waves of five dimensions.

    The lesson paints the first panel with RdBu, negative red; ours is blue below zero, as everywhere.
    """
    code = sinusoidal.heatmap(width, length, transposed=True).panels[0]
    assert isinstance(code, Heatmap)
    dims = Axis("dimension", code.columns.values[:shown])
    first = Heatmap("Sinusoidal code", code.values[:, :shown], code.rows, dims, code.scale, limit=code.limit)
    similar = sinusoidal.similarity(sinusoidal.table(width, range(length), 10_000.0))
    single = tuple(dimension for dimension in (0, 1, 10, 20, 50) if dimension < width)
    waves = sinusoidal.waves(width, single, last=99).panels[0]
    second, third = (
        replace(similar, name="Cosine of two positions' codes"),
        replace(waves, name="Single dimensions"),
    )
    figure = draw(View("", (first, second, third)))
    figure.set_size_inches(18, 5)
    return figure
