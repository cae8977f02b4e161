"""A view as SVG for either paper: drawn on light paper, and recoloured for dark paper where it can be."""

import re
from pathlib import Path

from posenc.pictures.colours import partners
from posenc.pictures.draw import draw
from posenc.pictures.mpl import rendered, write
from posenc.pictures.palette import DARK
from posenc.pictures.view import Heatmap, View


def both_papers(view: View, *, narrow: bool = False, png: Path | None = None) -> tuple[bytes, bytes]:
    """The figure on light paper and on dark; the light one also as pixels in a file."""
    figure = draw(view, narrow=narrow)
    light = rendered(figure)
    if png is not None:
        figure.set_layout_engine("none")  # everything stands where it belongs
        write(figure, png)
    if any(isinstance(panel, Heatmap) and panel.scale == "signed" for panel in view.panels):
        return light, rendered(draw(view, DARK, narrow=narrow))  # zero is paper: every cell has another colour
    return light, recoloured(light)


def recoloured(svg: bytes) -> bytes:
    """A drawing on light paper with every colour's partner on dark paper."""
    dark = {colour.encode(): other.encode() for colour, other in partners().items()}
    return re.sub(rb"(?<=: )#[0-9a-f]{6}\b", lambda match: dark.get(match[0], match[0]), svg)
