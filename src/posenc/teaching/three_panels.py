"""The lesson's three-panel figure of heatmap, similarity and waves; 18 × 5 inches at 150 dots per inch."""

from dataclasses import replace

from posenc.pictures.draw import Figure, draw
from posenc.pictures.view import Axis, Heatmap, View
from posenc.teaching.views import sinusoidal


def three_panels(width: int = 128, length: int = 50, shown: int = 64) -> Figure:
    """Draw three panels of the sinusoidal encoding: the first ``shown`` dimensions by position, the cosine
    similarities of positions, and the waves of five dimensions.

    In the lesson, negative values are red in the first panel (RdBu); here they are blue, as in all figures.
    """
    code = sinusoidal.heatmap(width, length, transposed=True).panels[0]
    assert isinstance(code, Heatmap)
    first = replace(
        code,
        name="Sinusoidal encoding",
        values=code.values[:, :shown],
        columns=Axis("dimension", code.columns.values[:shown]),
    )
    second = replace(sinusoidal.similarity(code.values), name="Cosine of two positions' encodings")
    single = tuple(dimension for dimension in (0, 1, 10, 20, 50) if dimension < width)
    waves = sinusoidal.waves(width, single, last=99).panels[0]
    figure = draw(View("", (first, second, replace(waves, name="Single dimensions"))))
    figure.set_size_inches(18, 5)
    return figure
