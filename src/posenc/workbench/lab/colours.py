"""The page's colours: CSS variables, and the 256 steps of every heatmap, all from the one palette."""

import json

from posenc.workbench import palette

SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7f7f7f", "#8c6d31")
"""Lines that stand for no encoding, in the order they are drawn; from the palette's encodings and others."""

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

EMPTY = 255
"""The code of a cell without a value; codes 0 … 254 run over the scale, 127 is zero of a signed one."""


def stylesheet() -> str:
    """CSS variables for light and dark; the page's own stylesheet names no colour."""
    shared = {"accent": palette.ACCENT, "reference": palette.REFERENCE}
    shared |= {f"series-{i}": colour for i, colour in enumerate(SERIES)}
    shared |= {f"encoding-{name}": style.colour for name, style in palette.ENCODINGS.items()}
    return (
        f":root {{ color-scheme: light dark; {_declared(shared | LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {_declared(DARK)} }} }}\n"
        f":root[data-theme=light] {{ color-scheme: light; }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {_declared(DARK)} }}\n"
    )


def _declared(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def tables() -> str:
    """JSON: for each scale, and for signed ones each paper, the red, green and blue of codes 0 … 254."""
    from posenc.workbench.figures.ink import magnitude

    steps = [[round(255 * c) for c in magnitude()(i / 254)[:3]] for i in range(255)]
    signed = {
        "light": _signed(palette.NEGATIVE, palette.PAPER, palette.POSITIVE),
        "dark": _signed(palette.NEGATIVE_DARK, palette.PAPER_DARK, palette.POSITIVE_DARK),
    }
    return json.dumps({"magnitude": {"light": steps, "dark": steps}, "signed": signed})


def _signed(low: str, middle: str, high: str) -> list[list[int]]:
    return [_mix(low, middle, i / 127) for i in range(127)] + [_mix(middle, high, i / 127) for i in range(128)]


def _mix(a: str, b: str, share: float) -> list[int]:
    return [round(x + (y - x) * share) for x, y in zip(_rgb(a), _rgb(b), strict=True)]


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
