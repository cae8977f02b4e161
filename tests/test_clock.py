"""The clock against 200-bit arithmetic, under another decimal context, and through casts."""

import decimal

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc.clock import Clock, turn_words
from posenc.scaling import Default

POSITIONS = [0, 1, 10**3, 10**6, 10**7, 2**31 - 1]


def exact(base: float, pairs: int, position: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    with mpmath.workprec(200):
        angles = [position * mpmath.mpf(base) ** (-mpmath.mpf(i) / pairs) for i in range(pairs)]
        return [mpmath.cos(a) for a in angles], [mpmath.sin(a) for a in angles]


def error(got: Tensor, want: list[mpmath.mpf]) -> float:
    return max(float(abs(mpmath.mpf(g) - w)) for g, w in zip(got.tolist(), want, strict=True))


@given(st.floats(1.001, 1e9), st.integers(1, 40), st.integers(0, 2**31 - 1))
def test_error_at_any_base_width_and_position(base: float, pairs: int, position: int) -> None:
    """Half a unit of float32 at 1 is 3.0e-8; the fraction's rounding adds at most 2π·p·2^-65."""
    clock = Clock(Default().frequencies(2 * pairs, base))
    cos, sin = exact(base, pairs, position)
    for dtype, bound in ((torch.float32, 2**-25 + 4e-10), (torch.float64, 4e-10)):
        got = clock(torch.tensor([position]), dtype)
        assert max(error(got[0][0], cos), error(got[1][0], sin)) <= bound


def test_the_callers_decimal_context_changes_nothing() -> None:
    want = turn_words(Default().frequencies(128, 1e4).exact)
    with decimal.localcontext() as context:
        context.prec = 5
        assert turn_words(Default().frequencies(128, 1e4).exact) == want


@pytest.mark.parametrize("phases", ["exact", "float32"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_no_cast_touches_it(phases: str, dtype: torch.dtype) -> None:
    at = torch.tensor(POSITIONS)
    clock = Clock(Default().frequencies(128, 1e4), phases)
    want = clock(at)
    assert {table.dtype for table in want} == {torch.float32}
    for cast in (clock.to(dtype), clock.half(), clock.float()):
        torch.testing.assert_close(cast(at), want, rtol=0, atol=0)
