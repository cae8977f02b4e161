"""People's names for things: `rope` is `rotary` everywhere, and a word is answered by what it means."""

import dataclasses
import inspect

import pytest

import posenc
from posenc.arguments import parameters_of
from posenc.errors import InvalidArgument, UnknownName
from posenc.names import ALIASES, MEANT, WORDS
from posenc.teaching.lab.rooms import find
from posenc.teaching.views.catalogue import VIEWS, make
from posenc.workbench.study.study import Study
from support.lab import reply
from support.studies import plan_of

PLAN = plan_of("rotary", train_length=16, lengths=(16,))


def test_rope_is_rotary_in_python() -> None:
    assert isinstance(posenc.encoding("rope", head_dim=8), posenc.Rotary)


def test_what_is_written_down_says_rotary() -> None:
    assert Study(encodings=("nope", "rope")).encodings == ("nope", "rotary")
    with pytest.raises(
        InvalidArgument, match="encodings='rotary,rotary' must list at least one value, without duplicates"
    ):
        Study(encodings=("rope", "rotary"))
    said = dataclasses.replace(PLAN, encoding="rope")
    assert said.id == PLAN.id
    assert said.name == "needle/rotary/seed 0"


@pytest.mark.parametrize("view", ["shuffle", "attention"])
def test_views_and_the_lab_take_it_and_answer_by_its_name(view: str) -> None:
    assert make(view, {"encoding": "rope"}).python == make(view, {"encoding": "rotary"}).python
    taken = next(p.name for p in find(view).controls if "encoding" in (p.name, p.argument))
    assert reply(f"/api/{view}", f"{taken}=rope").body == reply(f"/api/{view}", f"{taken}=rotary").body
    assert reply("/order", f"{taken}=rope").body == reply("/order", f"{taken}=rotary").body


def test_aliases_stand_for_names_and_hide_none() -> None:
    assert set(ALIASES.values()) <= set(posenc.CATALOGUE)
    assert not set(ALIASES) & set(posenc.CATALOGUE)
    several = {word for word, names in MEANT.items() if len(names) > 1}
    assert several == {"dim", "attention_mask"}, "other words mean one thing"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("RoPE", "rotary"),
        ("ropes", "rotary"),
        ("rotray", "rotary"),
        ("roformer", "rotary"),
        ("rotary_embedding", "rotary"),
        ("sin", "sinusoidal"),
        ("vaswani", "sinusoidal"),
        ("absolute", "sinusoidal"),
        ("none", "nope"),
        ("gpt2", "learned"),
        ("learnt", "learned"),
        ("linear_bias", "alibi"),
        ("ALiBi", "alibi"),
    ],
)
def test_a_word_is_answered_by_what_it_means(typed: str, meant: str) -> None:
    with pytest.raises(UnknownName, match=f"unknown encoding '{typed}'; did you mean '{meant}'\\? known: nope, "):
        posenc.encoding(typed)


@pytest.mark.parametrize("typed", ["rope", "RoPE", "ropes", "rope2", "roformer"])
def test_nope_is_never_the_answer_to_rope(typed: str) -> None:
    assert "did you mean" not in str(UnknownName("encoding", typed, ["nope", "alibi"]))


def test_every_word_means_something_there_is() -> None:
    settings = {name for view in VIEWS.values() for name in inspect.signature(view).parameters}
    for call in (posenc.attention, posenc.Rotary, posenc.mask.Mask, posenc.scaling.YaRN):
        settings |= parameters_of(call).keys()
    assert set(WORDS) <= {*posenc.CATALOGUE, *posenc.scaling.SCALINGS, *posenc.__all__, *settings}
