"""A figure for dark paper is the one for light paper in other colours, and looks as if it had been drawn there."""

import math
import re
from pathlib import Path

import pytest
import torch

from posenc.pictures.colours import LINES, line, partners, text
from posenc.pictures.draw import both_papers, draw
from posenc.pictures.mpl import rendered
from posenc.pictures.palette import DARK, PAPERS
from posenc.pictures.view import Axis, Heatmap, Line, Lines, View, counted

LENGTHS = Axis("test length", (128.0, 256.0, 512.0), "tokens", log=True)
RISING, LOW, HIGH = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.9, 1.5, 2.0]), torch.tensor([1.1, 2.5, 4.0])
CURVES = (
    Line("", RISING, "sinusoidal", LOW, HIGH),
    Line("", RISING + 1, "learned", hollow=True),
    Line("", RISING * 2, "my_module:Mine"),
)
CHART = Lines("loss", CURVES, LENGTHS, "loss", marks=((128.0, "trained to here"),), levels=((1.5, "gate"),))
SHARES = torch.tensor([[0.1, 0.5], [math.nan, 1.0]])
MAP = Heatmap("share", SHARES, counted("row", 2), counted("column", 2), "magnitude", "share", limit=1.0)
SIGNED = Heatmap("code", SHARES - 0.4, counted("row", 2), counted("column", 2), "signed")


def shapes(svg: bytes) -> bytes:
    """The drawing without the names of its shapes, in which matplotlib hides their colours."""
    return re.sub(rb'(id="|#)m[0-9a-f]{10}', rb"\1", svg)


@pytest.mark.parametrize("panel", [CHART, MAP, SIGNED], ids=["chart", "map", "signed"])
def test_the_dark_figure_is_what_would_be_drawn_on_dark_paper(panel: Lines | Heatmap) -> None:
    view = View("Loss by length", (panel,))
    light, dark = both_papers(view)
    assert shapes(dark) == shapes(rendered(draw(view, DARK)))
    assert shapes(light) == shapes(rendered(draw(view)))
    assert light != dark


def test_every_colour_of_light_paper_has_one_partner() -> None:
    found: dict[str, set[str]] = {}
    for hand in (line, text):
        for name in LINES:
            light, dark = (hand(name, paper).lower() for paper in PAPERS.values())
            found.setdefault(light, set()).add(dark)
    assert {light for light, dark in found.items() if len(dark) > 1} == set()
    assert all(partners()[light] == dark for light, (dark,) in found.items())


def test_pixels_show_what_the_vectors_show(tmp_path: Path) -> None:
    from PIL import Image

    both_papers(View("Loss by length", (CHART,)), png=tmp_path / "loss.png")
    with Image.open(tmp_path / "loss.png") as image:
        assert image.size == (1050, 630)
        assert image.getpixel((0, 0))[:3] == (0xFB, 0xFA, 0xF7)
