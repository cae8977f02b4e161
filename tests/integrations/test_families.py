"""The table of families: sorted entries, inheritance by name, and a refusal with the entry's name."""

import tomllib
from importlib.resources import files

import pytest

from posenc.errors import PosencError
from posenc.integrations.huggingface.families import FAMILIES, parse
from posenc.integrations.huggingface.family import Axes, Family, Rotates

TEXT = (files("posenc.integrations.huggingface") / "families.toml").read_text("utf-8")


def test_entries_are_sorted_one_fact_a_line() -> None:
    entries = [line.split(".")[0].split(" ")[0] for line in TEXT.splitlines() if line[:1].isalnum()]
    assert entries == sorted(entries)
    assert set(entries) == set(tomllib.loads(TEXT)) == set(FAMILIES)


def test_an_entry_takes_the_facts_of_another_and_changes_them() -> None:
    families = parse(
        """
        a.axes.map = "chunked"
        a.axes.sections = [16, 24, 24]
        a.defaults.rope_theta = 10_000.0
        b.like = "c"
        b.axes.map = "strided"
        c.like = "a"
        c.local_base = "rope_theta"
        c.rotates.by = "windows"
        """
    )
    rotates, local = Rotates("windows"), "rope_theta"
    defaults = {"rope_theta": 10_000.0}
    assert families["a"] == Family(axes=Axes("chunked", (16, 24, 24)), defaults=defaults)
    assert families["b"] == Family(
        axes=Axes("strided", (16, 24, 24)), defaults=defaults, rotates=rotates, local_base=local
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('arcee.liek = "llama"', "unknown key of family 'arcee' 'liek'"),
        ('arcee.windows.count = "back"', "unknown key of family 'arcee.windows' 'count'; did you mean 'counts'"),
        ('llama = {}\narcee.like = "lama"', "unknown family that 'arcee' is like 'lama'; did you mean 'llama'"),
        ('arcee.pairing = "halves"', "arcee.pairing = 'halves' must be .*half"),
        ("arcee.heads = 3", "arcee.heads = 3 must be str"),
        ("arcee.fixed_base = 10000", "arcee.fixed_base = 10000 must be float"),
        ('arcee.extra = "rotary"', "arcee.extra = 'rotary' must be"),
        ("arcee.extra = [1]", "arcee.extra = 1 must be str"),
        ('arcee.tower = "pixtral"', "arcee.tower = 'pixtral' must be Tower"),
        ("arcee = 3", "arcee = 3 must be dict"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(PosencError, match=message):
        parse(text)
