"""Parameters read their texts, keep their bounds, and refuse by name."""

import pytest

from posenc.errors import InvalidArgument, UnknownName
from posenc.workbench.lab.parameters import Arrangement, Number, Numbers, Sentence, Switch, pairs, read

WIDTH = Number("width", "width", 64, 2, 512)
BASE = Number("base", "base", 10_000.0, 2, 1e9, step=1.0, argument="ladder")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1000000000", "width=1000000000 is out of bounds; give a value from 2 to 512"),
        ("-3", "width=-3 is out of bounds"),
        ("64.5", "width='64.5' is not a whole number; give one from 2 to 512"),
        ("1e9", "is not a whole number"),
        ("nan", "is not a whole number"),
        ("", "is not a whole number"),
        ("9" * 50, "is not a whole number"),
        ("__import__('os')", "is not a whole number"),
    ],
)
def test_numbers_outside_their_bounds_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read([WIDTH], {"width": text})
    assert message in str(caught.value)


def test_values_reach_the_views_argument_and_defaults_fill_in() -> None:
    assert read([WIDTH, BASE], {"base": "500000"}) == {"width": 64, "ladder": 500_000.0}
    assert isinstance(BASE.read("100"), float)
    assert isinstance(WIDTH.read("100"), int)


def test_unknown_and_repeated_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'width'"):
        read([WIDTH], {"widht": "8"})
    with pytest.raises(InvalidArgument, match="width is given twice"):
        pairs("width=8&width=9")
    with pytest.raises(InvalidArgument, match="at most 2000"):
        pairs("a=" + "b" * 3_000)


@pytest.mark.parametrize("text", ["cat", "a b c d e f g h i", "cat <b>", "cat " + "a" * 13, "../../etc passwd"])
def test_sentences_are_words(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no sentence for the lab"):
        Sentence("sentence", "sentence", "cat ate fish").read(text)


@pytest.mark.parametrize("text", ["0-0-1", "0-3", "cat", "1", "0-1-2-3-4-5-6-7-8-9"])
def test_arrangements_are_permutations(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Arrangement("order", "order", (1, 0)).read(text)


def test_every_kind_writes_what_it_reads() -> None:
    kinds = [
        (WIDTH, "128"),
        (BASE, "2.5"),
        (Switch("causal", "mask", False), "1"),
        (Numbers("dims", "dims", (0,), 0, 511), "0,100,511"),
        (Sentence("s", "s", "a b"), "fish ate cat"),
        (Arrangement("o", "o", (1, 0)), "2-0-1"),
    ]
    for kind, text in kinds:
        assert kind.write(kind.read(text)) == text
