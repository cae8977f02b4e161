"""All colours by name, for the light and the dark theme: text, lines, and the steps of a heatmap's scale."""

import colorsys
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import get_args

from posenc.pictures import palette
from posenc.pictures.palette import LIGHT, PAPERS, Paper, Scale

EMPTY = 255
"""The colour code of a cell without a value. Codes 0 … 254 cover the scale; on a signed scale, code 127 is zero."""
TEXT, LINE = 4.5, 3.0
"""The lowest contrasts of text, and of lines in the dark theme, with the background (WCAG 2.2, AA)."""


LINES: dict[str, str] = {
    "accent": palette.ACCENT,
    "query": palette.QUERY,
    "key": palette.KEY,
    "reference": palette.REFERENCE,
    **{f"series-{i}": colour for i, colour in enumerate(palette.SERIES)},
    **{f"other-{i}": colour for i, colour in enumerate(palette.OTHERS)},
    **{f"encoding-{name}": style.colour for name, style in palette.ENCODINGS.items()},
}
"""The colour of every line, vector and role that a scene may name."""


@lru_cache
def line(name: str, paper: Paper) -> str:
    """Return the colour of a line: from the palette in the light theme, lightened as needed in the dark theme."""
    return LINES[name] if paper is LIGHT else readable(LINES[name], paper.paper, LINE)


@lru_cache
def text(name: str, paper: Paper) -> str:
    """Return the colour of a line's label: the line's colour, made dark or light enough to read."""
    return readable(LINES[name], paper.paper, TEXT)


def readable(colour: str, paper: str, least: float) -> str:
    """Make ``colour`` darker or lighter until its contrast with ``paper`` is at least ``least``, and return it."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*(v / 255 for v in rgb(colour)))
    step = -0.01 if luminance(rgb(paper)) > 0.18 else 0.01
    shades = (colorsys.hls_to_rgb(hue, lightness + step * n, saturation) for n in itertools.count())
    codes = (bytes(round(255 * min(1.0, max(0.0, channel))) for channel in shade) for shade in shades)
    return "#" + next(code for code in codes if contrast(code, rgb(paper)) >= least).hex()


def stylesheet() -> str:
    """Return CSS variables for both themes (light in print), and a class for every colour name."""
    light, dark = map(_variables, PAPERS.values())
    both = " ".join(f"--{name}: light-dark({colour}, {dark[name]});" for name, colour in light.items())
    classes = " ".join(f".{name} {{ --line: var(--{name}); --text: var(--{name}-text); }}" for name in LINES)
    return (
        f":root {{ color-scheme: light dark; {both} }}\n"
        ":root[data-theme=light] { color-scheme: light; }\n"
        ":root[data-theme=dark] { color-scheme: dark; }\n"
        "@media print { :root:root { color-scheme: light; } }\n"
        f"{classes}\n"
    )


def _variables(paper: Paper) -> dict[str, str]:
    return (
        asdict(paper)
        | {name: line(name, paper) for name in LINES}
        | {f"{name}-text": text(name, paper) for name in LINES}
    )


def tones() -> str:
    """Return JSON with the red, green and blue of every colour in ``steps``, by scale and theme.

    Each colour has a fourth number, which is 1 if text on the colour is dark, and 0 otherwise. A scale that has the
    same colours in both themes is listed only for the light theme.
    """
    by_scale = {
        scale: {
            name: [[*c, int(dark_text(c))] for c in steps(scale, paper)]
            for name, paper in PAPERS.items()
            if paper is LIGHT or steps(scale, paper) != steps(scale, LIGHT)
        }
        for scale in get_args(Scale)
    }
    return json.dumps(by_scale, separators=(",", ":"))


DARK_TEXT, LIGHT_TEXT = "#000000", "#ffffff"
"""The two colours of numbers in the cells of a heatmap; at least one of them always has a contrast of 4.5 or
more."""


def dark_text(colour: Sequence[int]) -> bool:
    """Return whether dark text is more readable than light text on this colour."""
    return contrast(colour, rgb(DARK_TEXT)) >= contrast(colour, rgb(LIGHT_TEXT))


@lru_cache
def steps(scale: Scale, paper: Paper) -> tuple[tuple[int, ...], ...]:
    """Return the colours of a scale for the codes 0 … 254, from the low end of the scale to the high end."""
    names = {
        "magnitude": palette.MAGNITUDE,
        "picture": palette.PICTURE,
        "signed": (paper.negative, paper.paper, paper.positive),
    }
    anchors = [rgb(name) for name in names[scale]]
    return tuple(_between(anchors, code / (EMPTY - 1) * (len(anchors) - 1)) for code in range(EMPTY))


def _between(anchors: Sequence[Sequence[int]], place: float) -> tuple[int, ...]:
    """Interpolate a row of colours at a position; the first colour is at 0, and the next colour at 1."""
    left = min(int(place), len(anchors) - 2)
    ends = zip(anchors[left], anchors[left + 1], strict=True)
    return tuple(round(x + (y - x) * (place - left)) for x, y in ends)


def rgb(colour: str) -> tuple[int, int, int]:
    """Return a colour such as ``"#102030"`` as three bytes."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def luminance(colour: Sequence[int]) -> float:
    """Return the relative luminance of an sRGB colour by WCAG 2.2, from 0 (black) to 1 (white)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour[:3])]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: Sequence[int], b: Sequence[int]) -> float:
    """Return the contrast between two colours, from 1 to 21 (WCAG 2.2). AA requires 4.5 for text and 3 for
    controls.
    """
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)
