"""The clock against 200-bit arithmetic, against its float32 mode, and through casts."""

import decimal

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc.clock import Clock, turn_words
from posenc.errors import InvalidArgument, UnknownName
from posenc.scaling import Default, Frequencies

POSITIONS = [0, 1, 10**3, 10**6, 10**7, 2**31 - 1]


def exact(base: float, pairs: int, position: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    with mpmath.workprec(200):
        angles = [position * mpmath.mpf(base) ** (-mpmath.mpf(i) / pairs) for i in range(pairs)]
        return [mpmath.cos(a) for a in angles], [mpmath.sin(a) for a in angles]


def error(got: Tensor, want: list[mpmath.mpf]) -> float:
    return max(float(abs(mpmath.mpf(g) - w)) for g, w in zip(got.tolist(), want, strict=True))


@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
@pytest.mark.parametrize("position", POSITIONS)
def test_error_of_cos_and_sin_at_any_position(base: float, position: int) -> None:
    clock = Clock(Default().frequencies(128, base))
    at = torch.tensor([position])
    cos, sin = exact(base, 64, position)
    for dtype, bound in ((torch.float32, 3e-8), (torch.float64, 4e-10)):
        got = clock(at, dtype)
        assert max(error(got[0][0], cos), error(got[1][0], sin)) <= bound


@given(st.floats(1.001, 1e9), st.integers(1, 40), st.integers(0, 2**31 - 1))
def test_error_at_any_base_width_and_position(base: float, pairs: int, position: int) -> None:
    """Half a unit of float32 at 1 is 3.0e-8; the fraction's rounding adds at most 2π·p·2^-65."""
    clock = Clock(Default().frequencies(2 * pairs, base))
    got = clock(torch.tensor([position]))
    cos, sin = exact(base, pairs, position)
    assert max(error(got[0][0], cos), error(got[1][0], sin)) <= 2**-25 + 4e-10


def test_words_are_the_rounded_fractions_of_a_turn() -> None:
    """θ = 1 is the fraction 0x28BE60DB9391054A of a turn; words wrap, so that a whole turn is none."""
    spectrum = Default().frequencies(2, 1e4)
    assert turn_words(spectrum.exact).tolist() == [0x28BE60DB9391054A]
    with mpmath.workprec(200):
        ladder = [mpmath.mpf(10_000) ** (-mpmath.mpf(i) / 64) for i in range(64)]
        words = [int(mpmath.nint(f / (2 * mpmath.pi) * 2**64)) for f in ladder]
    assert turn_words(Default().frequencies(128, 1e4).exact).tolist() == words


def test_the_callers_decimal_context_changes_nothing() -> None:
    want = turn_words(Default().frequencies(128, 1e4).exact)
    with decimal.localcontext() as context:
        context.prec = 5
        assert torch.equal(turn_words(Default().frequencies(128, 1e4).exact), want)


@pytest.mark.parametrize("phases", ["exact", "float32"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_no_cast_touches_it(phases: str, dtype: torch.dtype) -> None:
    at = torch.tensor(POSITIONS)
    clock = Clock(Default().frequencies(128, 1e4), phases)
    want = clock(at)
    for cast in (clock.to(dtype), clock.half(), clock.float()):
        for mine, theirs in zip(cast(at), want, strict=True):
            assert torch.equal(mine, theirs)
            assert mine.dtype == torch.float32


def test_it_counts_positions_in_any_shape() -> None:
    clock = Clock(Default().frequencies(8, 1e4))
    cos, sin = clock(torch.arange(12).view(3, 4))
    assert cos.shape == sin.shape == (3, 4, 4)
    assert torch.equal(cos[1, 2], clock(torch.tensor([6]))[0][0])


def test_what_is_no_clock_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="frequencies is empty; pass at least one"):
        Clock(Frequencies((), ()))


@pytest.mark.usefixtures("unchecked")
def test_unknown_phases_are_named() -> None:
    with pytest.raises(UnknownName, match="unknown phases 'float'; did you mean 'float32'"):
        Clock(Default().frequencies(8, 1e4), "float")


@pytest.mark.parametrize(
    ("width", "base", "message"),
    [
        (7, 1e4, "rotary_dim=7 must be even and at least 2: channels rotate in pairs; use 8"),
        (0, 1e4, "rotary_dim=0 must be even and at least 2: channels rotate in pairs; use 2"),
        (8, 1.0, "base=1.0 must be finite and above 1; 10000 is the usual value"),
        (8, float("nan"), "base=nan must be finite"),
        (8, float("inf"), "base=inf must be finite"),
    ],
)
def test_what_is_no_ladder_is_refused(width: int, base: float, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Default().frequencies(width, base)
