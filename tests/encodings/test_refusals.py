"""What encodings and scalings refuse in one sentence, and the numbers of other libraries that they take."""

import inspect

import mpmath
import numpy as np
import pytest
import torch

import posenc
from posenc import NoPE, Rotary
from posenc.errors import InvalidArgument
from posenc.positions import arange
from posenc.scaling import DynamicNTK, Linear, PerPair, YaRN
from support.cases import BREADTH, CASES
from support.checking import annotations_unchecked

WHOLE = [
    (name, setting)
    for name, entry in posenc.CATALOGUE.items()
    for setting, parameter in inspect.signature(entry.make).parameters.items()
    if parameter.annotation in (int, int | None)
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("name", "setting"), WHOLE)
def test_what_is_no_whole_number_is_refused_by_its_name(name: str, setting: str) -> None:
    """Of every setting and fact of every encoding that counts something."""
    entry = posenc.CATALOGUE[name]
    facts = {"width": 32, "heads": 4, "head_dim": 8, "num_positions": 64}
    given = {fact: n for fact, n in facts.items() if fact in inspect.signature(entry.make).parameters}
    for wrong in (8.0, 8.5, "8", -3):
        with pytest.raises(InvalidArgument, match=rf"\b{setting}="):
            entry.make(**{**given, **entry.fresh, setting: wrong})


@pytest.mark.usefixtures("unchecked")
def test_numbers_of_numpy_are_numbers() -> None:
    rotary = Rotary(np.int64(8), pairing="half", base=np.float32(1e4), scaling=Linear(np.float32(2)))
    assert torch.equal(rotary.clock.turns, Rotary(8, pairing="half", scaling=Linear(2.0)).clock.turns)
    assert type(rotary.scaling.factor) is float


def test_an_attention_factor_adds_no_rounding() -> None:
    """float32 tables are the float64 ones rounded once: half a unit at a, here below 2, is 2^-24."""
    rotary = Rotary(16, pairing="half", scaling=PerPair((1.0,) * 8, 1.4738981373442304))
    near, far = (rotary.tables(arange(10**5), dtype) for dtype in (torch.float32, torch.float64))
    for table, exact in zip(near, far, strict=True):
        assert torch.equal(table, exact.float())
        assert (table - exact).abs().max() <= 2**-24


def test_ramps_that_end_between_pairs_are_exact_at_any_position() -> None:
    """The rounding of a fraction alone: 2π·2^31·2^-65 rad, 4e-10; float64's ends were 6e-8 off."""
    d, b, s, length, p = 64, 1e4, 40.0, 4096, 2**31 - 1
    with mpmath.workprec(200):
        low, high = (
            d * mpmath.log(length / (r * 2 * mpmath.pi)) / (2 * mpmath.log(mpmath.mpf(b))) for r in (32, 1)
        )
        want = []
        for i in range(d // 2):
            theta, keep = mpmath.mpf(b) ** (-mpmath.mpf(2 * i) / d), 1 - min(max((i - low) / (high - low), 0), 1)
            want.append(mpmath.cos(p * (theta * keep + theta / s * (1 - keep))))
        rotary = Rotary(d, pairing="half", scaling=YaRN(s, length, truncate=False, attention_factor=1.0))
        got = rotary.tables(torch.tensor([p]), torch.float64)[0][0].tolist()
        assert max(float(abs(g - w)) for g, w in zip(got, want, strict=True)) <= 5e-10


def test_a_planned_base_is_rounded_once() -> None:
    """f·T/L − (f−1) is the float64 nearest to the formula's value."""
    assert DynamicNTK(1.1, 4096).plan(4097).factor == float(mpmath.mpf(1) + mpmath.mpf(1.1) / 4096)


@pytest.mark.parametrize("loaded", [True, False])
def test_what_is_still_on_meta_is_refused(loaded: bool) -> None:
    """Built on meta, with its weights assigned or not: buffers have no memory, and torch may read it."""
    for case in (case for case in CASES if str(case) not in BREADTH):
        encoding = case.build()
        state = encoding.state_dict()
        encoding.to("meta")
        if loaded:
            encoding.load_state_dict(state, assign=True)
        if any(x.is_meta for x in (*encoding.parameters(), *encoding.buffers())):
            with (
                annotations_unchecked(),
                pytest.raises(
                    InvalidArgument,
                    match=r"positions is on cpu but the encoding's .* is on meta; load weights, and call "
                    r"encoding.reset_buff",
                ),
            ):
                encoding.at(case.plain(9))
            encoding.reset_buffers("cpu" if loaded else "meta")
            encoding.at(case.plain(9).to("cpu" if loaded else "meta"))


def test_a_custom_class_says_what_it_says() -> None:
    class Own(NoPE.__base__):  # type: ignore[name-defined,misc]
        name, acts_on, relative = "own", (), True

        def __init__(self, heads: int) -> None:
            super().__init__()
            raise TypeError("mine")

        def place(self, *_: object) -> None: ...

    with pytest.raises(TypeError, match="mine"):
        Own(3)
    assert list(inspect.signature(Own).parameters) == ["heads"]
