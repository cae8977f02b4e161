"""Sinusoidal positions: their formula, their identities, and every layout."""

import math

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


@pytest.mark.parametrize("width", [1, 7, 15])
def test_an_odd_width_leaves_out_the_last_cosine(width: int) -> None:
    odd = Sinusoidal(width)
    x = odd.at(arange(3)).embed(torch.zeros(1, 3, width))
    assert x.shape == (1, 3, width)
    assert len(odd.clock.frequencies) == (width + 1) // 2
    slowest = 10_000.0 ** (-(width - 1) / width)
    assert x[0, 2, -1].item() == pytest.approx(math.sin(2 * slowest), abs=1e-7)


def test_one_rotation_takes_every_position_k_further() -> None:
    """PE(p+k) = R(k) PE(p) with the same R at every p."""
    encoding, at, k = Sinusoidal(16), arange(50), 7
    here, there = encoding.table(at, torch.float64), encoding.table(at + k, torch.float64)
    phase = k * torch.tensor([10_000.0 ** (-i / 8) for i in range(8)], dtype=torch.float64)
    sin, cos = here[:, ::2], here[:, 1::2]
    torch.testing.assert_close(there[:, ::2], sin * phase.cos() + cos * phase.sin(), rtol=0, atol=1e-13)
    torch.testing.assert_close(there[:, 1::2], cos * phase.cos() - sin * phase.sin(), rtol=0, atol=1e-13)


def test_scale_and_order() -> None:
    at = arange(9)
    rows = Sinusoidal(8).table(at)
    torch.testing.assert_close(Sinusoidal(8, scale=0.25).table(at), rows / 4, rtol=0, atol=0)
    block = Sinusoidal(8, order="block").table(at)
    assert torch.equal(block, torch.cat((rows[:, ::2], rows[:, 1::2]), dim=-1))
