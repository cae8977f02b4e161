"""Sinusoidal positions: their formula in every spacing and layout."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import Sinusoidal
from posenc.positions import arange
from support import reference


@given(st.integers(1, 40), st.floats(1.5, 1e7), st.sampled_from(["interleaved", "block"]), st.integers(0, 500))
def test_any_width_base_and_order_follow_the_formula(width: int, base: float, order: str, first: int) -> None:
    at = arange(5, offset=first)
    got = Sinusoidal(width, base=base, order=order).table(at, torch.float64)
    # The reference rounds its frequencies (2^-53) before multiplying by positions.
    torch.testing.assert_close(got, reference.Sinusoids(width, order, base=base).rows(at), rtol=0, atol=1e-12)


@given(st.integers(2, 20), st.floats(1.5, 1e7), st.sampled_from(["interleaved", "block"]))
def test_the_authors_spacing_ends_at_one_over_base(half: int, base: float, order: str) -> None:
    encoding = Sinusoidal(2 * half, base=base, order=order, spacing="tensor2tensor")
    want = reference.Sinusoids(2 * half, order, "tensor2tensor", base).rows(arange(9))
    torch.testing.assert_close(encoding.table(arange(9), torch.float64), want, rtol=0, atol=1e-12)
    assert float(encoding.clock.frequencies.exact[-1]) == pytest.approx(1 / base, rel=1e-14)


def test_far_rows_are_as_exact_as_the_clock_and_the_scale_multiplies_them() -> None:
    at = torch.tensor([10**6, 2**31 - 1])
    encoding = Sinusoidal(8, order="block", scale=0.25)
    cos, sin = encoding.clock(at, torch.float64)
    assert torch.equal(encoding.table(at, torch.float64), torch.cat((sin, cos), -1) / 4)
