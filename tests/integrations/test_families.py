"""The table of families: sorted entries, inheritance by name, and a refusal with the entry's name."""

import tomllib
from dataclasses import replace
from importlib.resources import files

import pytest

from posenc.errors import PosencError
from posenc.integrations.huggingface.families import FAMILIES, parse
from posenc.integrations.huggingface.family import Family

TEXT = (files("posenc.integrations.huggingface") / "families.toml").read_text("utf-8")


def test_entries_are_sorted_one_fact_a_line() -> None:
    entries = [line.split(".")[0].split(" ")[0] for line in TEXT.splitlines() if line[:1].isalnum()]
    assert entries == sorted(entries)
    assert set(entries) == set(tomllib.loads(TEXT)) == set(FAMILIES)


def test_an_entry_takes_the_facts_of_another_and_changes_them() -> None:
    families = parse(
        """
        a.axes = "chunked"
        a.sections = [16, 24, 24]
        a.defaults.rope_theta = 10_000.0
        b.like = "c"
        b.axes = "strided"
        b.defaults.head_dim = 16
        c.like = "a"
        c.local_base = "rope_theta"
        c.rotates = "windows"
        """
    )
    first = Family(axes="chunked", sections=(16, 24, 24), defaults={"rope_theta": 10_000.0})
    assert families["a"] == first
    defaults = {"rope_theta": 10_000.0, "head_dim": 16}
    assert families["b"] == replace(
        first, axes="strided", defaults=defaults, rotates="windows", local_base="rope_theta"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('arcee.liek = "llama"', "unknown key of family 'arcee' 'liek'"),
        (
            'arcee.window_count = "back"',
            "unknown key of family 'arcee' 'window_count'; did you mean 'window_counts'",
        ),
        ('llama = {}\narcee.like = "lama"', "unknown family that 'arcee' is like 'lama'; did you mean 'llama'"),
        ('arcee.pairing = "halves"', "arcee.pairing = 'halves' must be .*half"),
        ("arcee.heads = 3", "arcee.heads = 3 must be str"),
        ("arcee.fixed_base = 10000", "arcee.fixed_base = 10000 must be float"),
        ('arcee.extra = "rotary"', "arcee.extra = 'rotary' must be"),
        ("arcee.extra = [1]", "arcee.extra = 1 must be str"),
        ('arcee.defaults = "rope_theta"', "arcee.defaults = 'rope_theta' must be Mapping"),
        ("arcee = 3", "arcee = 3 must be dict"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(PosencError, match=message):
        parse(text)
