"""The palette: every style is an encoding's, every text gets one, no two of a figure look alike."""

from itertools import combinations
from math import dist

import posenc
from posenc.pictures.colours import LINES, rgb
from posenc.pictures.palette import ENCODINGS, OTHER_DASHES, OTHER_MARKERS, OTHERS, family, style


def test_every_style_is_that_of_an_encoding_and_looks_like_no_other() -> None:
    assert set(ENCODINGS) <= set(posenc.CATALOGUE)
    looks = [(own.colour, own.dash, own.marker) for own in ENCODINGS.values()]
    for one, other in combinations(looks, 2):
        alike = [a for a, b in zip(one, other, strict=True) if a == b]
        assert len(alike) <= 1, f"{one} and {other} differ in one thing only"


def test_a_text_has_its_familys_colour_and_itself_for_a_label() -> None:
    own = style("rotary(base=500000)")
    assert own.colour == ENCODINGS["rotary"].colour
    assert own.label == "rotary(base=500000)"
    assert family("my_module:Mine(width=3)") == family("layers(rotary*3 + nope)") == family("") == ""


def test_texts_of_one_figure_look_different_and_alone_always_the_same() -> None:
    others = [f"layers(rotary*{i} + nope)" for i in range(1, len(OTHERS) + 1)]
    bases = [f"rotary(base={i})" for i in range(2, 2 + len(OTHER_DASHES))]
    assert len({style(text, others).colour for text in others}) == len(others)
    assert len({style(text, bases).dash for text in bases}) == len(bases)
    both = [*others, *bases]
    assert len({(s.colour, s.dash, s.marker) for s in (style(text, both) for text in both)}) == len(both)
    assert style(others[0]) == style(others[0])
    assert len(OTHER_DASHES) * len(OTHER_MARKERS) == 35


def lab(colour: str) -> tuple[float, float, float]:
    """CIE L*a*b* of sRGB with white D65."""
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb(colour))
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    f, g, h = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * g - 16, 500 * (f - g), 200 * (g - h)


def apart(one: str, other: str) -> float:
    return dist(lab(one), lab(other))


def test_one_colour_has_one_meaning() -> None:
    """No name has another's colour; near RoPE's vermilion is none; those met most are far from all others."""
    for (one, colour), (other, second) in combinations(LINES.items(), 2):
        assert colour.lower() != second.lower(), (one, other)
    for name, colour in LINES.items():
        assert name == "encoding-rotary" or apart(colour, ENCODINGS["rotary"].colour) > 30, name
    met = ("accent", "query", "key", *(f"encoding-{name}" for name in ("nope", "sinusoidal", "learned", "alibi")))
    rest = [name for name in LINES if not name.startswith("encoding-")]
    for name in met:
        for other in rest:
            assert name == other or apart(LINES[name], LINES[other]) > 12, (name, other)
