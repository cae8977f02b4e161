"""The catalogue, where encodings act, and the errors that every encoding shares."""

import pytest
import torch

import posenc
from posenc import CATALOGUE, NoPE, Rotary, Stack, encoding
from posenc.encodings.axes import chunked
from posenc.errors import InvalidArgument, PosencError
from posenc.laws.effects import effects
from posenc.laws.law import same
from posenc.positions import arange, on_axes
from support.cases import CASES
from support.checking import annotations_unchecked

FACTS = {"width": 32, "heads": 4, "head_dim": 8, "num_positions": 64}


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_name_is_made_from_the_same_facts(name: str) -> None:
    made = encoding(name, **FACTS)
    assert made.acts_on == tuple(
        door for door in ("embeddings", "queries_keys", "bias", "scale") if door in made.acts_on
    )
    placed, x = made.at(on_axes(arange(5), made.axes)), torch.randn(2, 5, 32)
    q = torch.randn(2, 4, 5, 8)
    assert (placed.embed(x) is not x) == ("embeddings" in made.acts_on), "a door that is not used is the identity"
    assert (placed.rotate(q, q)[0] is not q) == ("queries_keys" in made.acts_on)
    here, _ = placed.with_content(x)
    assert (here.bias is not None) == ("bias" in made.acts_on)
    assert (here.scale is not None) == ("scale" in made.acts_on)


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - {"nope", "query-scale"}))
def test_a_missing_fact_is_asked_for(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"\w+ needs \w+; add \w+=…"):
        encoding(name)


def test_settings_round_trip() -> None:
    """Made again from its settings, of its type and with its numbers, every encoding computes the same."""
    for case in CASES:
        encoding = case.build().double()
        if str(case) == "learned-grid-resized":  # settings are those of its table, which resized() looks at anew
            continue
        again = encoding.with_settings()
        assert repr(again) == repr(encoding)
        assert again.settings.keys() == encoding.settings.keys()
        assert {name: (x.dtype, x.device) for name, x in again.state_dict().items()} == {
            name: (x.dtype, x.device) for name, x in encoding.state_dict().items()
        }, case
        again.load_state_dict(encoding.state_dict())
        with annotations_unchecked():
            same(*(effects(case, made, case.plain(9)) for made in (again, encoding)), what=str(case))


def test_changed_settings_of_a_composition() -> None:
    """Parts are shared, and as they are now."""
    rope, nope = Rotary(8, pairing="half"), NoPE()
    layers = posenc.Layers({"a": rope, "b": nope}, ("a", "b"), windows={"a": 5}, chunks={"b": 3}, layers=4)
    wider = layers.with_settings(windows={"a": 9})
    assert wider.settings == {**layers.settings, "windows": {"a": 9}}
    assert wider.by_name["a"] is rope
    stretched = layers.with_scaling(posenc.scaling.Linear(2.0))
    assert stretched.with_settings(layers=6).by_name["a"].scaling == posenc.scaling.Linear(2.0)
    assert Stack(rope, nope).with_settings(parts=(nope,)).encodings == (nope,)
    deep = posenc.Layers({"t5": posenc.T5(2, shared=False)}, ("t5",), layers=2).with_settings(layers=3)
    assert list(deep.by_name) == ["t5_0", "t5_1", "t5_2"]
    two = posenc.Layers({"a": Rotary(8, pairing="half", axes=chunked(2, 2)), "b": rope}, ("a", "b"))
    assert two.with_settings(layers=4).settings == {**two.settings, "layers": 4}


def test_positions_of_queries_and_keys_share_a_device() -> None:
    with pytest.raises(
        InvalidArgument, match=r"positions is on cpu and k_positions on meta; move one: k_positions.to"
    ):
        NoPE().at(arange(3), arange(3, device="meta"))


def test_work_on_positions_is_done_once_a_placing(monkeypatch: pytest.MonkeyPatch) -> None:
    """``at`` makes the tables, and layers share them."""
    rotary, calls = Rotary(8, pairing="half"), []
    monkeypatch.setattr(rotary, "tables", lambda *a, make=rotary.tables: calls.append(a) or make(*a))
    placed, q = rotary.at(arange(3)), torch.randn(1, 2, 3, 8)
    assert len(calls) == 1
    for _ in range(3):
        posenc.attention(*placed.rotate(q, q), q, placed, causal=True)
    assert len(calls) == 1


def test_every_refusal_is_one_of_ours() -> None:
    kinds = [
        kind for kind in vars(posenc.errors).values() if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    assert all(issubclass(kind, PosencError) for kind in kinds)
    assert issubclass(posenc.errors.PositionOutOfRange, IndexError)
    assert issubclass(posenc.errors.InvalidArgument, ValueError)
