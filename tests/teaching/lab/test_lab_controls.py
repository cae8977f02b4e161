"""Controls read their texts and refuse by name."""

import pytest

from posenc.errors import InvalidArgument, UnknownName
from posenc.teaching.lab.controls import (
    Arrangement,
    Choice,
    Control,
    Number,
    Pasted,
    Sentence,
    Switch,
    pairs,
    read,
)
from posenc.teaching.lab.rooms import find

WIDTH = Number(name="width", default="64", low=2, high=512)
BASE = Number(name="base", default="10000", low=2, high=1e9, integer=False, argument="ladder")
FIRST = Number(name="first", default="3", low=0, high=511, below="width")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9" * 400, "is not a whole number"),
        ("1e999", "width='1e999' is not a whole number"),
        ("64.5", "width='64.5' is not a whole number; give one from 2 to 512"),
        ("nan", "is not a number"),
        ("", "is not a number"),
        ("1_000", "is not a number"),
        ("__import__('os')", "is not a number"),
    ],
)
def test_what_is_no_number_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read([WIDTH], {"width": text})
    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "value"), [("1e9", 1e9), ("5e5", 5e5), ("1E+04", 1e4), ("10000.5", 10000.5)])
def test_numbers_may_have_exponents_as_python_writes_them(text: str, value: float) -> None:
    assert BASE.read(text) == value


@pytest.mark.parametrize("text", ["1000000000", "99999999999999", "-3", "1e9", "1e300"])
def test_a_number_outside_its_bounds_is_refused_by_the_view(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"length=.* must be between 2 and 4096"):
        find("heatmap").answer({"length": text})


def test_every_fault_is_said() -> None:
    with pytest.raises(InvalidArgument, match=r"width='9.5' is not a whole number.*; base='foo' is not a number"):
        read([WIDTH, BASE], {"width": "9.5", "base": "foo"})


def test_a_number_that_ends_where_another_does_is_moved_there() -> None:
    assert read([FIRST, WIDTH], {"first": "400", "width": "8"}) == {"first": 7, "width": 8}


def test_values_reach_the_views_argument_and_defaults_fill_in() -> None:
    assert read([WIDTH, BASE], {"base": "500000"}) == {"width": 64, "ladder": 500_000.0}
    assert isinstance(BASE.read("100"), float)
    assert isinstance(WIDTH.read("100"), int)


def test_unknown_and_repeated_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'width'"):
        read([WIDTH], {"widht": "8"})
    with pytest.raises(InvalidArgument, match="width is given twice"):
        pairs("width=8&width=9")
    with pytest.raises(InvalidArgument, match="at most 12000"):
        pairs("a=" + "b" * 13_000)


@pytest.mark.parametrize("text", ["cat", "a b c d e f g h i", "cat <b>", "cat " + "a" * 13, "../../etc passwd"])
def test_sentences_are_words(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no sentence for the lab"):
        Sentence(name="sentence", default="cat ate fish").read(text)


@pytest.mark.parametrize("text", ["cat", "1", "0-1-2-3-4-5-6-7-8-9"])
def test_arrangements_are_places(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no arrangement"):
        Arrangement(name="order", default="1-0", of="sentence").read(text)


@pytest.mark.parametrize(
    ("control", "held"),
    [
        (Number(name="n", default="2", low=0, high=6, step=2), ("0", "2", "4", "6")),
        (Number(name="n", default="1", low=0, high=1e9, stops=(1, 1e6)), ("1", "1000000")),
        (Switch(name="s"), ("0", "1")),
        (Choice(name="c", default="a", options=("a", "b")), ("a", "b")),
        (Arrangement(name="o", default="1-0", of="s"), ("0-1", "1-0")),
        (Pasted(name="p", default=""), ()),
    ],
    ids=lambda value: value.kind if isinstance(value, Control) else "",
)
def test_every_stop_of_a_control_is_read(control: Control, held: tuple[str, ...]) -> None:
    assert control.settable == held
    for text in held:
        control.read(text)
