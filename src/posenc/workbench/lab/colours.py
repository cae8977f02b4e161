"""The page's colours: CSS variables, and the 256 steps of every heatmap, all from the one palette."""

import json
from collections.abc import Sequence

from posenc.workbench import palette

SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7f7f7f", "#8c6d31")
"""Lines that stand for no encoding, in the order they are drawn; from the palette's encodings and others."""

DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (3, 1.4),
    (1, 1.4),
    (5, 1.4, 1, 1.4),
    (2, 1),
    (6, 2),
    (0.6, 1),
    (3, 1, 1, 1),
)
"""Ink and gap of the same lines, in line widths, so that print and grey still tell them apart."""

LIGHT = {
    "paper": palette.PAPER,
    "ink": palette.INK,
    "quiet": "#5c5f66",
    "hairline": palette.HAIRLINE,
    "edge": "#85827a",
    "wash": "#f1efe8",
    "negative": palette.NEGATIVE,
    "positive": palette.POSITIVE,
}
DARK = {
    "paper": palette.PAPER_DARK,
    "ink": palette.INK_DARK,
    "quiet": "#a3a5a8",
    "hairline": palette.HAIRLINE_DARK,
    "edge": "#75797f",
    "wash": "#1d2025",
    "negative": palette.NEGATIVE_DARK,
    "positive": palette.POSITIVE_DARK,
}
"""``edge`` outlines controls, 3:1 against paper; ``quiet`` is secondary text, 4.5:1; ``wash`` is a pressed area."""


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


EMPTY = 255
"""The code of a cell without a value; codes 0 … 254 run over the scale, 127 is zero of a signed one."""


def stylesheet() -> str:
    """CSS variables for light and dark; the page's own stylesheet names no colour."""
    shared = {"accent": palette.ACCENT, "reference": palette.REFERENCE}
    shared |= {f"series-{i}": colour for i, colour in enumerate(SERIES)}
    shared |= {f"encoding-{name}": style.colour for name, style in palette.ENCODINGS.items()}
    lines = " ".join(f".encoding-{name} {{ --line: var(--encoding-{name}); }}" for name in palette.ENCODINGS)
    return (
        f":root {{ color-scheme: light dark; {_declared(shared | LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {_declared(DARK)} }} }}\n"
        f":root[data-theme=light] {{ color-scheme: light; }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {_declared(DARK)} }}\n"
        f"{lines}\n"
    )


def _declared(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def tables() -> str:
    """JSON: for each scale and paper, red, green and blue of codes 0 … 254, and 1 where text on it is dark."""
    from posenc.workbench.figures.ink import magnitude

    steps = [[round(255 * c) for c in magnitude()(i / 254)[:3]] for i in range(255)]
    signed = {
        "light": _signed(palette.NEGATIVE, palette.PAPER, palette.POSITIVE),
        "dark": _signed(palette.NEGATIVE_DARK, palette.PAPER_DARK, palette.POSITIVE_DARK),
    }
    scales = {"magnitude": {"light": steps, "dark": steps}, "signed": signed}
    for papers in scales.values():
        for name, table in papers.items():
            papers[name] = [
                [*colour[:3], int(contrast(colour, DARK_TEXT) >= contrast(colour, LIGHT_TEXT))] for colour in table
            ]
    return json.dumps(scales)


DARK_TEXT, LIGHT_TEXT = rgb("#000000"), rgb("#ffffff")
"""Numbers on a heatmap's cells; one of them always has a contrast of 4.5 or more."""


def luminance(colour: Sequence[int]) -> float:
    """Relative luminance, 0 (black) to 1 (white), as WCAG 2.2 defines it for sRGB."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour[:3])]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: Sequence[int], b: Sequence[int]) -> float:
    """Contrast of two colours, 1 to 21 (WCAG 2.2); AA asks 4.5 of text and 3 of controls."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _signed(low: str, middle: str, high: str) -> list[list[int]]:
    return [_mix(low, middle, i / 127) for i in range(127)] + [_mix(middle, high, i / 127) for i in range(128)]


def _mix(a: str, b: str, share: float) -> list[int]:
    return [round(x + (y - x) * share) for x, y in zip(rgb(a), rgb(b), strict=True)]
