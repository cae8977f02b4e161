"""The one palette: an encoding keeps its colour, dash and marker in every figure, table and page.

Encodings use the Okabe–Ito colours, which colour-blind eyes can tell apart; dashes and markers do the same in
print. The lab's stylesheet takes its colours from here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How one encoding is drawn and called."""

    label: str
    colour: str
    dash: tuple[float, ...]
    """Lengths of ink and gap in line widths; empty for a solid line."""
    marker: str
    """A matplotlib marker."""


ENCODINGS: dict[str, Style] = {
    "nope": Style("NoPE", "#7f7f7f", (1, 1.6), "o"),
    "sinusoidal": Style("sinusoidal", "#0072B2", (5, 2), "s"),
    "learned": Style("learned", "#E69F00", (7, 2, 1.5, 2), "^"),
    "learned-clamped": Style("learned (clamped)", "#E69F00", (7, 2, 1.5, 2), "^"),
    "rotary": Style("RoPE", "#D55E00", (), "D"),
    "alibi": Style("ALiBi", "#009E73", (9, 2.5), "v"),
}
OTHERS = ("#CC79A7", "#56B4E9", "#F0E442", "#000000")

PAPER, INK = "#fbfaf7", "#1d1f23"
PAPER_DARK, INK_DARK = "#14161a", "#e8e6e1"
ACCENT = "#D55E00"
HAIRLINE, HAIRLINE_DARK = "#d8d5cd", "#33363c"
NEGATIVE, POSITIVE = "#2166ac", "#b2182b"
"""Ends of the signed scale: blue is −, the paper is 0, red is +."""
NEGATIVE_DARK, POSITIVE_DARK = "#6fb1e8", "#f08377"
"""The same ends on dark paper, as far from it as the others are from light paper."""
REFERENCE = "#E6B800"
"""What a vector is compared with: the yellow of the lessons."""
MAGNITUDE = "cividis"
"""The matplotlib colour map of magnitudes and similarities."""


def style(encoding: str) -> Style:
    """The style of an encoding; a name outside the catalogue gets a colour of its own, always the same one."""
    if encoding in ENCODINGS:
        return ENCODINGS[encoding]
    colour = OTHERS[sum(encoding.encode()) % len(OTHERS)]
    return Style(encoding, colour, (3, 1.5, 1, 1.5), "P")
