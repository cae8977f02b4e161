"""The palette: every style is an encoding's, every text gets one, no two of a figure look alike."""

from itertools import combinations

import posenc
from posenc.pictures.colours import stylesheet
from posenc.pictures.palette import ENCODINGS, OTHER_DASHES, OTHER_MARKERS, OTHERS, family, style


def test_every_style_is_that_of_an_encoding_and_has_a_class_on_the_page() -> None:
    assert set(ENCODINGS) <= set(posenc.CATALOGUE)
    for name in ENCODINGS:
        assert (
            f".encoding-{name} {{ --line: var(--encoding-{name}); --text: var(--encoding-{name}-text); }}"
            in stylesheet()
        )
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
