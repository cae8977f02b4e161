"""The lesson's three-panel figure of heatmap, similarity and waves; 18 × 5 inches at 150 dots per inch."""

from dataclasses import replace

from posenc.pictures.draw import Figure, draw
from posenc.pictures.view import Heatmap, View, counted
from posenc.teaching.views import sinusoidal


def three_panels(width: int = 128, length: int = 50, shown: int = 64) -> Figure:
    """Draw the first ``shown`` dimensions by position, the cosine similarities of positions, and the waves of five
    dimensions.

    In the lesson, negative values are red in the first panel (RdBu); here they are blue, as in all figures.
    """
    code = sinusoidal.table(width, range(length), 10_000.0)
    axes = counted("position", length), counted("dimension", min(shown, width))
    single = tuple(dimension for dimension in (0, 1, 10, 20, 50) if dimension < width)
    panels = (
        Heatmap("Sinusoidal code", code[:, :shown], *axes, "signed", limit=1.0),
        replace(sinusoidal.similarity(code), name="Cosine of two positions' codes"),
        replace(sinusoidal.waves(width, single, last=99).panels[0], name="Single dimensions"),
    )
    figure = draw(View("", panels))
    figure.set_size_inches(18, 5)
    return figure
