"""Colours by name: ink that can be read on either paper, and numbers that can be read on every step of a scale."""

import json

import pytest

from posenc.pictures.colours import (
    DARK_TEXT,
    LIGHT_TEXT,
    LINES,
    contrast,
    line,
    rgb,
    steps,
    stylesheet,
    text,
    tones,
)
from posenc.pictures.palette import DARK, ENCODINGS, LIGHT, MAGNITUDE, PAPERS


@pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)
def test_every_label_can_be_read_on_its_paper(paper: object) -> None:
    for name in LINES:
        assert contrast(rgb(text(name, paper)), rgb(paper.paper)) >= 4.5, name
    for ink in (paper.ink, paper.quiet, paper.negative, paper.positive):
        assert contrast(rgb(ink), rgb(paper.paper)) >= 4.5
    assert contrast(rgb(paper.edge), rgb(paper.paper)) >= 3


def test_lines_keep_the_palettes_colour_and_are_seen_in_the_dark() -> None:
    assert all(line(name, LIGHT) == colour for name, colour in LINES.items())
    assert all(contrast(rgb(line(name, DARK)), rgb(DARK.paper)) >= 3 for name in LINES)
    assert line("encoding-rotary", DARK).lower() == ENCODINGS["rotary"].colour.lower()


def test_numbers_on_every_colour_can_be_read() -> None:
    for scale, papers in json.loads(tones()).items():
        for paper, colours in papers.items():
            assert len(colours) == 255
            for *colour, dark in colours:
                assert contrast(colour, rgb(DARK_TEXT if dark else LIGHT_TEXT)) >= 4.5, (scale, paper, colour)


def test_dark_paper_says_its_colours_where_they_differ() -> None:
    assert {scale for scale, papers in json.loads(tones()).items() if "dark" in papers} == {"signed"}
    assert steps("magnitude", DARK) == steps("magnitude", LIGHT)


def test_scales_end_where_the_palette_says() -> None:
    signed, magnitude = steps("signed", LIGHT), steps("magnitude", DARK)
    assert (signed[0], signed[127], signed[254]) == (rgb(LIGHT.negative), rgb(LIGHT.paper), rgb(LIGHT.positive))
    assert (magnitude[0], magnitude[254]) == (rgb(MAGNITUDE[0]), rgb(MAGNITUDE[-1]))


def test_the_stylesheet_has_every_name_on_both_papers() -> None:
    sheet = stylesheet()
    for name in LINES:
        assert f".{name} {{ --line: var(--{name}); --text: var(--{name}-text); }}" in sheet
        assert f"--{name}-text: light-dark({text(name, LIGHT)}, {text(name, DARK)});" in sheet
