"""The catalogue: facts that are asked for, settings that come back, and the types of errors."""

import pytest

import posenc
from posenc import CATALOGUE, NoPE, Rotary, Stack, encoding
from posenc.encodings.axes import chunked
from posenc.errors import InvalidArgument
from posenc.laws.effects import effects
from posenc.laws.law import same
from support.cases import CASES
from support.checking import annotations_unchecked


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


def test_refusals_are_the_errors_that_python_has_for_them() -> None:
    assert issubclass(posenc.errors.PositionOutOfRange, IndexError)
    assert issubclass(posenc.errors.InvalidArgument, ValueError)
