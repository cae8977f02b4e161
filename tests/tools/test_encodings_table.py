"""The table of all encodings: made from what they are, refused where a law is broken."""

import pytest
from tools.pages import shipped_encodings
from tools.pages.encodings import row, table

import posenc
from posenc.encodings.catalogue import Entry
from posenc.errors import InvalidArgument, UnknownName
from support.mutants import BrokenRotary


def test_rows_say_what_the_encodings_are() -> None:
    rotary, fox, pope, learned = (row(name) for name in ("rotary", "fox", "pope", "learned"))
    assert (rotary.relative, rotary.isometric, rotary.key_channels, rotary.state_size) == (True, True, 1.0, 0)
    assert rotary.methods == (
        "linear",
        "ntk",
        "ntk-fixed",
        "abf",
        "dynamic",
        "yarn",
        "yarn-paper",
        "llama3",
        "proportional",
    )
    assert (fox.relative, fox.state_size, fox.methods, fox.not_rerotatable) == (True, 4, (), "")
    assert (pope.key_channels, pope.isometric, pope.not_rerotatable) == (2.0, False, "")
    assert (learned.relative, learned.acts_on) == (False, ("embeddings",))
    assert learned.not_rerotatable.startswith("positions were added")


def test_the_table_has_every_encoding() -> None:
    text = shipped_encodings()
    assert text.startswith("| encoding |")
    for name in posenc.CATALOGUE:
        assert f"| `{name}` |" in text
    assert "| `fope` | queries and keys | no | no | 1 | k, v | no | – | Intern-S1-Pro |" in text


def test_a_broken_law_makes_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from support.broken import FloatPositions

    monkeypatch.setitem(posenc.CATALOGUE, "broken", Entry(FloatPositions))
    with pytest.raises(
        InvalidArgument, match=r"broken breaks sees_only_the_offset: .*fix it before writing the table"
    ):
        row("broken")
    monkeypatch.setitem(posenc.CATALOGUE, "whole", Entry(BrokenRotary))
    assert row("whole").relative


def test_who_ships_what_is_not_here_is_an_error() -> None:
    with pytest.raises(UnknownName, match="unknown encoding 'rotery'"):
        table({"rotery": ["a model"]})
