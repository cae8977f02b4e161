"""Rotary positions: their formula at any width, base and tail, and outputs that rotate back."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import Rotary
from posenc.positions import arange
from posenc.scaling import YaRN
from support import reference

PAIRINGS = st.sampled_from(["half", "interleaved"])


@given(PAIRINGS, st.integers(1, 12), st.integers(0, 5), st.floats(1.5, 1e7), st.integers(0, 500))
def test_any_width_base_and_tail_follow_the_formula(
    pairing: str, pairs: int, tail: int, base: float, first: int
) -> None:
    rotary = Rotary(2 * pairs + tail, pairing=pairing, rotary_dim=2 * pairs, base=base)
    x = torch.randn(2, 3, 5, 2 * pairs + tail, dtype=torch.float64)
    at = arange(5, offset=first)
    got, _ = rotary.at(at, dtype=torch.float64).rotate(x, x)
    torch.testing.assert_close(got, reference.Rotation(2 * pairs, pairing, base).rotate(x, at), rtol=0, atol=1e-11)
    assert torch.equal(got[..., 2 * pairs :], x[..., 2 * pairs :])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_outputs_rotate_back_at_the_queries(pairing: str) -> None:
    """unrotate(rotate(x)) is x; of values that rotate as keys do a query then takes what the distance decides."""
    rope = Rotary(16, pairing=pairing, rotary_dim=12, scaling=YaRN(4, 32))
    x = torch.randn(2, 3, 7, 16)
    placed = rope.at(arange(7) + 40)
    torch.testing.assert_close(placed.unrotate(placed.rotate(x, None)[0]), x, rtol=0, atol=1e-5)
    shifted = [Rotary(16, pairing=pairing).at(arange(7) + start) for start in (0, 99)]
    near, far = (here.unrotate(here.rotate(x, None)[0].roll(1, 2))[:, :, 1:] for here in shifted)
    torch.testing.assert_close(near, far, rtol=0, atol=1e-4)
