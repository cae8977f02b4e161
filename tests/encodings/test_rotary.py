"""Rotary positions: the lessons' numbers, both pairings, the partial and the complex form."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import Rotary
from posenc.encodings.rotary import half_from_interleaved, interleaved_from_half, rotate
from posenc.positions import arange
from posenc.scaling import YaRN
from posenc.teaching.claims.rotary import rotate_complex
from support import reference

PAIRINGS = st.sampled_from(["half", "interleaved"])


def test_the_lessons_plane() -> None:
    """A quarter of a half turn per step: q at m and k at n meet as −1.100 at offset 2, not +1.100."""
    q, k = torch.tensor([[1.5, 0.5]]), torch.tensor([[0.8, 1.0]])
    for offset, score in ((0, 1.7), (1, 0.424), (2, -1.1), (4, -1.7), (8, 1.7)):
        for m in (0, 1, 3, 5):
            angles = torch.tensor([[m], [m + offset]], dtype=torch.float64) * math.pi / 4
            turned = rotate(torch.cat((q, k)).double(), angles.cos(), angles.sin(), "half")
            assert (turned[0] @ turned[1]).item() == pytest.approx(score, abs=5e-4)


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


@given(PAIRINGS, st.integers(1, 12), st.integers(0, 5))
def test_the_complex_form_is_the_same_function(pairing: str, pairs: int, tail: int) -> None:
    rotary = Rotary(2 * pairs + tail, pairing=pairing, rotary_dim=2 * pairs)
    x = torch.randn(2, 3, 5, 2 * pairs + tail, dtype=torch.float64)
    cos, sin = rotary.tables(arange(5), torch.float64)
    torch.testing.assert_close(
        rotate_complex(x, cos, sin, pairing), rotate(x, cos, sin, pairing), rtol=0, atol=1e-15 * 8
    )


@given(st.integers(1, 12))
def test_the_pairings_are_one_rotation_under_a_permutation(pairs: int) -> None:
    to_half, to_interleaved = half_from_interleaved(2 * pairs), interleaved_from_half(2 * pairs)
    assert [to_half[i] for i in to_interleaved] == list(range(2 * pairs))
    x = torch.randn(1, 2, 5, 2 * pairs, dtype=torch.float64)
    half, _ = Rotary(2 * pairs, pairing="half").at(arange(5), dtype=torch.float64).rotate(x[..., to_half], x)
    interleaved, _ = Rotary(2 * pairs, pairing="interleaved").at(arange(5), dtype=torch.float64).rotate(x, x)
    torch.testing.assert_close(half, interleaved[..., to_half], rtol=0, atol=1e-14)
    torch.testing.assert_close(half[..., to_interleaved], interleaved, rtol=0, atol=1e-14)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_outputs_rotate_back_at_the_queries(pairing: str) -> None:
    """unrotate(rotate(x)) is x; of values that rotate as keys do a query then takes what the distance decides."""
    rope = Rotary(16, pairing=pairing, rotary_dim=12, scaling=YaRN(4, 32))
    x = torch.randn(2, 3, 7, 16)
    placed = rope.at(arange(7) + 40)
    torch.testing.assert_close(placed.unrotate(placed.rotate(x, None)[0]), x, rtol=0, atol=1e-5)
    taken = []
    for start in (0, 99):
        shifted = Rotary(16, pairing=pairing).at(arange(7) + start)
        taken.append(shifted.unrotate(shifted.rotate(x, None)[0].roll(1, 2)))
    torch.testing.assert_close(taken[0][:, :, 1:], taken[1][:, :, 1:], rtol=0, atol=1e-4)
