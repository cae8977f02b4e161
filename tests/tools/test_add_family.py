"""The tool that adds a family puts its entry where the table is sorted by name."""

import tomllib

import pytest
from tools.add_family import TABLE, inserted

from conftest import never_chosen


@pytest.mark.parametrize(
    ("expression", "left_out"),
    [
        ("not slow and not real and not programs", ["slow", "real", "programs"]),
        ("hypothesis and not slow and not real and not programs", ["slow", "real", "programs"]),
        ("slow or not slow", []),
        ("slow", []),
    ],
)
def test_no_case_that_the_command_asks_for_is_left_out(expression: str, left_out: list[str]) -> None:
    """A tool that runs slow and fast tests of a family ran neither, and accepted any entry."""
    assert never_chosen(expression) == left_out


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("aaa", ['aaa.like = "llama"']),
        ("llama2", ['llama2.like = "llama"']),
        ("zzz", ['zzz.like = "llama"', 'zzz.layers = "n_layers"']),
    ],
)
def test_an_entry_is_put_at_its_place(name: str, lines: list[str]) -> None:
    text = TABLE.read_text("utf-8")
    names = list(tomllib.loads(inserted(text, name, lines)))
    assert names == sorted(names)
    assert set(names) - set(tomllib.loads(text)) == {name}
