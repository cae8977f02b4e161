"""A stage reads the texts of an address: its choices by their list, all else by the view that it asks."""

import pytest

from posenc.errors import InvalidArgument, UnknownName
from posenc.teaching.lab.controls import Control, pairs
from posenc.teaching.lab.rooms import find


def test_a_number_past_the_sliders_end_is_answered() -> None:
    assert find("shift-both").answer({"m": "1000000"}).panels[0].arrows[3].word == "dog 1000000"


def test_a_number_that_ends_where_another_does_is_moved_there() -> None:
    assert (
        find("heatmap").answer({"first": "400", "length": "8"}).readouts.keys()
        == find("heatmap").answer({}).readouts.keys()
    )


def test_a_choice_is_one_of_its_list_by_any_name_that_it_has() -> None:
    asked = find("shuffle")
    assert asked.answer({"encoding": "rope"}) is not None
    for name in ("rotray", "stack(rotary, fox)", "my_module:Mine", "__import__('os')"):
        with pytest.raises(UnknownName, match="unknown encoding"):
            asked.answer({"encoding": name})


def test_unknown_and_repeated_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'width'"):
        find("heatmap").answer({"widht": "8"})
    with pytest.raises(InvalidArgument, match="width is given twice"):
        pairs("width=8&width=9")
    with pytest.raises(InvalidArgument, match="at most 12000"):
        pairs("a=" + "b" * 13_000)


@pytest.mark.parametrize("sentence", ["cat", "a b c d e f g h i"])
def test_a_sentence_has_two_to_eight_words(sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=r"number of words=[19] must be between 2 and 8"):
        find("shuffle").answer({"sentence": sentence})


@pytest.mark.parametrize("order", ["cat", "1", "0-1-2-3-4-5-6-7-8-9", "0-0-1"])
def test_an_arrangement_has_each_place_once(order: str) -> None:
    with pytest.raises(InvalidArgument, match=r"order=.* (is not an arrangement|must be numbers)"):
        find("shuffle").answer({"order": order})


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
