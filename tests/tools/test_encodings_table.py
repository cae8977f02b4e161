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
    assert (rotary["offsets only"], rotary["keeps lengths"], rotary["a cache keeps"]) == ("yes", "yes", "k, v")
    methods = "linear, ntk, ntk-fixed, abf, dynamic, yarn, yarn-paper, llama3, proportional"
    assert (rotary["extends by"], rotary["cached keys move"]) == (methods, "yes")
    assert (fox["offsets only"], fox["a cache keeps"], fox["extends by"]) == ("yes", "k, v, 1 per head", "–")
    assert (fox["keeps lengths"], fox["cached keys move"]) == ("–", "yes")
    assert (pope["a cache keeps"], pope["keeps lengths"], pope["cached keys move"]) == ("2·k, v", "no", "yes")
    assert (learned["offsets only"], learned["acts on"], learned["cached keys move"]) == ("no", "embeddings", "no")


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
    assert row("whole")["offsets only"] == "yes"


def test_who_ships_what_is_not_here_is_an_error() -> None:
    with pytest.raises(UnknownName, match="unknown encoding 'rotery'"):
        table({"rotery": ["a model"]})
