"""Encodings as text: a recipe's full text builds what the recipe builds, and its short text says what differs."""

import pytest

import posenc
from posenc.encodings.catalogue import canonical
from posenc.encodings.text import parse
from posenc.errors import UnknownName

SHAPE = {"width": 16, "heads": 4, "head_dim": 4, "num_positions": 24, "layers": 2}
COMPOSED = (
    "layers(rotary*3 + nope)",
    "stack(rope, fox)",
    "alibi(slopes=(0.25, 0.125, 0, 0))",
    "layers(learned(past_end=clamp, std=0.5) + query-scale)",
    "rotary(scaling=yarn(4, 4096))",
)


@pytest.mark.parametrize("text", [*posenc.CATALOGUE, *COMPOSED])
def test_a_full_text_says_every_setting_and_is_its_own_full_text(text: str) -> None:
    full = canonical(parse(text), full=True)
    assert str(canonical(parse(str(full)), full=True)) == str(full)
    assert canonical(full) == canonical(parse(text))
    made, again = posenc.encoding(text, **SHAPE), posenc.encoding(str(full), **SHAPE)
    assert repr(made).replace(".0,", ",") == repr(again).replace(".0,", ",")  # 32 is 32.0


@pytest.mark.parametrize("text", ["nope(args=1)", "nope(kwargs=1)", "t5(bukets=3)"])
def test_a_setting_that_a_class_does_not_take_is_refused(text: str) -> None:
    with pytest.raises(UnknownName, match="unknown setting of"):
        canonical(parse(text))
