"""The palette, which gives an encoding the same colour, dash and marker in every figure, table and page.

The common encodings use the Okabe–Ito colours, which colour-blind people can tell apart. In black-and-white print,
encodings differ in their dashes and markers. The style sheet of the web pages that ``posenc lab`` serves also uses
this palette.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal
from zlib import crc32

Scale = Literal["signed", "magnitude", "picture"]
"""The colour scales: ``"signed"`` (blue below 0, red above 0), ``"magnitude"`` (dark to light), ``"picture"``."""


@dataclass(frozen=True)
class Style:
    """The style and the label of one encoding."""

    label: str
    colour: str
    dash: tuple[float, ...]
    """The lengths of dashes and gaps, as multiples of the line width; empty for a solid line."""
    marker: str
    """The matplotlib marker of points."""


ENCODINGS: dict[str, Style] = {
    "nope": Style("NoPE", "#7f7f7f", (1, 1.6), "o"),
    "sinusoidal": Style("sinusoidal", "#0072B2", (5, 2), "s"),
    "learned": Style("learned", "#E69F00", (7, 2, 1.5, 2), "^"),
    "rotary": Style("RoPE", "#D55E00", (), "D"),
    "alibi": Style("ALiBi", "#009E73", (9, 2.5), "v"),
    "t5": Style("T5", "#CC79A7", (4, 1.2), "X"),
    "fox": Style("FoX", "#56B4E9", (2, 1), "p"),
    "kerple": Style("KERPLE", "#8C564B", (3, 1), "+"),
    "sandwich": Style("Sandwich", "#BCBD22", (1, 0.8), "x"),
    "fire": Style("FIRE", "#B22222", (8, 1, 1, 1), "1"),
    "shaw": Style("Shaw", "#4B0082", (4, 3), "2"),
    "inkling": Style("Inkling", "#2F4F4F", (10, 1), "3"),
    "transformer-xl": Style("Transformer-XL", "#556B2F", (3, 3), "4"),
    "deberta": Style("DeBERTa", "#1F77B4", (6, 1, 2, 1), "|"),
    "cope": Style("CoPE", "#C71585", (2, 3), "_"),
    "window": Style("window table", "#008080", (9, 1, 3, 1), "$w$"),
    "decomposed": Style("decomposed table", "#2A788E", (7, 1, 1, 1, 3, 1), "$d$"),
    "layoutlm": Style("LayoutLM", "#A0522D", (1.5, 2.5), "$l$"),
    "query-scale": Style("query scale", "#332288", (6, 1.5, 1, 1.5, 1, 1.5), "h"),
    "channel-rotary": Style("channel rotary", "#44AA99", (4, 1, 1, 1, 1, 1), "d"),
    "learned-grid": Style("learned grid", "#882255", (8, 2), "H"),
    "sinusoidal-grid": Style("sinusoidal grid", "#999933", (5, 1.5), "8"),
    "rotary-learned": Style("learned RoPE", "#8B4513", (3, 1), "*"),
    "xpos": Style("xPos", "#5D3A9B", (5, 1, 1, 1), "8"),
    "pope": Style("PoPE", "#1B7837", (10, 1), "P"),
    "fope": Style("FoPE", "#A6761D", (6, 1), "<"),
    "ssmax": Style("SSMax", "#6A6ACD", (3, 1, 1, 1), "H"),
}
OTHERS = ("#6B2737", "#2FB5A0", "#C0A000", "#AA4499", "#3F6B1F")
OTHER_DASHES = ((3, 1.5, 1, 1.5), (1.5, 1), (5, 1.5), (8, 1.5, 2, 1.5), (4, 1, 1, 1, 1, 1))
OTHER_MARKERS = ("P", "*", "<", ">", "d", "H", "8")


@dataclass(frozen=True)
class Paper:
    """The colours of a theme.

    Args:
        quiet: the colour of secondary text.
        edge: the colour of the outlines of controls, with a contrast of 3:1.
        wash: the background of pressed buttons and selected areas.
        negative, positive: the ends of the signed scale, on which 0 is ``paper``.
    """

    paper: str
    ink: str
    quiet: str
    hairline: str
    edge: str
    wash: str
    negative: str
    positive: str


LIGHT = Paper("#fbfaf7", "#1d1f23", "#5c5f66", "#d8d5cd", "#85827a", "#f1efe8", "#2166ac", "#b2182b")
DARK = Paper("#14161a", "#e8e6e1", "#a3a5a8", "#33363c", "#75797f", "#1d2025", "#6fb1e8", "#f08377")
PAPERS = {"light": LIGHT, "dark": DARK}
ACCENT = "#6741D9"
"""The colour of links, focused controls and movable parts."""
QUERY, KEY = "#A61E8C", "#0B7285"
REFERENCE = "#E6B800"
"""The colour of arrows whose role is ``"reference"``."""
MAGNITUDE = (
    *("#440154", "#48186a", "#472d7b", "#424086", "#3b528b", "#33638d", "#2c728e", "#26828e", "#21918c"),
    *("#1fa088", "#28ae80", "#3fbc73", "#5ec962", "#84d44b", "#addc30", "#d8e219", "#fde725"),
)
"""The colours of magnitudes, dark to light: viridis (van der Walt and Smith, 2015) at even steps."""
PICTURE = (
    *("#5b95cf", "#fbe3bf", "#fff6cf", "#ffcf66", "#9fb4c0", "#6f8c98"),
    *("#8fb365", "#47743a", "#3b3440", "#7b6a72", "#f7e27a", "#15161a"),
)
"""The colours of the picture of a cat, two per shape: sky, sun, far hills, near hills, fur, eyes and pupils."""
SERIES = ("#44546A", "#E4719A", "#228833", "#B79F00", "#3399BB", "#994455", "#8C6D31", "#5A5AA8")
"""The colours, in drawing order, of lines that show no encoding; no encoding has these colours."""
DASHES: tuple[tuple[float, ...], ...] = (
    *((), (3, 1.4), (1, 1.4), (5, 1.4, 1, 1.4), (2, 1), (6, 2), (0.6, 1), (3, 1, 1, 1)),
)
"""The dashes of lines that show no encoding, as multiples of the line width; they make the lines differ in
black-and-white print."""


LABELS = {"learned(past_end=clamp)": "learned (clamped)"}
"""The labels of encodings that have the style but not the label of their family."""


def family(encoding: str) -> str:
    """Return the encoding's name without settings, such as ``"rotary"``, or "" if it is not in ``ENCODINGS``."""
    name = encoding.partition("(")[0]
    return name if name in ENCODINGS else ""


def style(encoding: str, among: Collection[str] = ()) -> Style:
    """Return the style of an encoding, with its family's colour or, without a family, with one of ``OTHERS``.

    ``among`` holds the encodings of the figure, so that those that are not in ``ENCODINGS`` get different styles.
    Without ``among``, the style depends only on the encoding.
    """
    if encoding in ENCODINGS:
        return ENCODINGS[encoding]
    if encoding in LABELS:
        return replace(ENCODINGS[family(encoding)], label=LABELS[encoding])
    others = sorted(set(among) - {*ENCODINGS, *LABELS})
    index = others.index(encoding) if encoding in others else crc32(encoding.encode())
    colour = ENCODINGS[family(encoding)].colour if family(encoding) else OTHERS[index % len(OTHERS)]
    dash, marker = OTHER_DASHES[index % len(OTHER_DASHES)], OTHER_MARKERS[index % len(OTHER_MARKERS)]
    return Style(encoding, colour, dash, marker)


def token(encoding: str, among: Collection[str] = ()) -> str:
    """Return the name of an encoding's colour in style sheets and scripts."""
    name = family(encoding)
    return f"encoding-{name}" if name else f"other-{OTHERS.index(style(encoding, among).colour)}"
