"""A stage reads the texts of an address: its choices by their list, all else by the view that it asks."""

import pytest

from posenc.errors import InvalidArgument
from posenc.teaching.lab.controls import Control, pairs
from posenc.teaching.lab.rooms import find


def test_a_number_past_the_sliders_end_is_answered() -> None:
    assert find("shift-both").answer({"m": "1000000"}).panels[0].arrows[3].word == "dog 1000000"


def test_a_number_that_ends_where_another_does_is_moved_there() -> None:
    assert (
        find("heatmap").answer({"first": "400", "length": "8"}).readouts.keys()
        == find("heatmap").answer({}).readouts.keys()
    )


CHOICES = ("rotray", "stack(rotary, fox)", "my_module:Mine", "__import__('os')")
ORDERS = ("cat", "1", "0-1-2-3-4-5-6-7-8-9", "0-0-1")


@pytest.mark.parametrize(
    ("stage", "state", "message"),
    [
        ("heatmap", {"widht": "8"}, "did you mean 'width'"),
        *(("shuffle", {"encoding": name}, "unknown encoding") for name in CHOICES),
        ("shuffle", {"sentence": "cat"}, "number of words=1 must be between 2 and 8"),
        ("shuffle", {"sentence": "a b c d e f g h i"}, "number of words=9 must be between 2 and 8"),
        *(("shuffle", {"order": order}, r"order=.* (is not an arrangement|must be numbers)") for order in ORDERS),
    ],
)
def test_what_a_control_does_not_know_is_refused(stage: str, state: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        find(stage).answer(state)


@pytest.mark.parametrize(
    ("query", "message"), [("width=8&width=9", "width is given twice"), ("a=" + "b" * 13_000, "at most 12000")]
)
def test_an_address_that_repeats_itself_or_is_long_is_refused(query: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        pairs(query)


@pytest.mark.parametrize(
    ("control", "held"),
    [
        (Control(kind="number", name="n", stops="2..4"), ("2", "3", "4")),
        (Control(kind="number", name="n", stops=(1, 1e6)), ("1", "1000000")),
        (Control(kind="switch", name="s"), ("0", "1")),
        (Control(kind="choice", name="c", options=("a", "b")), ("a", "b")),
        (Control(kind="choice", name="c", encodings=("nope", "rotary")), ("nope", "rotary")),
        (Control(kind="arrangement", name="o", default="1-0", of="s"), ("0-1", "1-0")),
        (Control(kind="pasted", name="p", default=""), ()),
    ],
    ids=lambda value: value.kind if isinstance(value, Control) else "",
)
def test_what_a_pointer_can_set(control: Control, held: tuple[str, ...]) -> None:
    assert control.settable == held
