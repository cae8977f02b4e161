"""Rotary positions: the lessons' numbers, both pairings, the partial and the complex form."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import Rotary
from posenc.encodings.rotary import half_from_interleaved, interleaved_from_half, rotate
from posenc.errors import InvalidArgument, UnknownName
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


def test_negated_sines_turn_back() -> None:
    rotary = Rotary(8, pairing="half")
    x = torch.randn(1, 2, 5, 8, dtype=torch.float64)
    cos, sin = rotary.tables(arange(5, offset=1000), torch.float64)
    back = rotate(rotate(x, cos, sin, "half"), cos, -sin, "half")
    torch.testing.assert_close(back, x, rtol=0, atol=1e-14)


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
    with pytest.raises(InvalidArgument, match="placed at 7 positions"):
        placed.unrotate(x[:, :, :3])


def test_queries_and_keys_may_stand_elsewhere() -> None:
    rotary = Rotary(8, pairing="half")
    q, k = torch.randn(2, 4, 1, 8), torch.randn(2, 2, 6, 8)
    turned_q, turned_k = rotary.at(torch.tensor([5]), arange(6)).rotate(q, k)
    assert torch.equal(turned_q, rotary.at(torch.tensor([5])).rotate(q, q)[0])
    assert torch.equal(turned_k, rotary.at(arange(6)).rotate(k, k)[1])


def test_every_row_may_have_positions_of_its_own() -> None:
    rotary, x = Rotary(8, pairing="interleaved"), torch.randn(2, 4, 3, 8)
    rows = torch.tensor([[0, 1, 2], [7, 7, 9]])
    turned, _ = rotary.at(rows).rotate(x, x)
    for i in range(2):
        assert torch.equal(turned[i : i + 1], rotary.at(rows[i]).rotate(x[i : i + 1], x[i : i + 1])[0])


def test_the_settings_that_have_no_default_are_asked_for() -> None:
    with pytest.raises(InvalidArgument, match="Rotary needs pairing; add pairing='half' or pairing='interleaved'"):
        Rotary(8)


@pytest.mark.usefixtures("unchecked")
def test_bad_settings_are_refused() -> None:
    for settings, message in (
        ({"head_dim": 7}, "head_dim=7 must be even and at least 2: channels rotate in pairs; use 8"),
        ({"head_dim": 8, "rotary_dim": 10}, "rotary_dim=10 is more than head_dim=8; use head_dim or less"),
        ({"head_dim": 8, "rotary_dim": 0}, "rotary_dim=0 must be even and at least 2"),
        ({"head_dim": 8, "rotary_dim": -2}, "rotary_dim=-2 must be even and at least 2"),
        ({"head_dim": 8, "base": -1.0}, "base=-1.0 must be finite and above 1"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            Rotary(**settings, pairing="half")
    with pytest.raises(UnknownName, match="unknown pairing 'halves'; did you mean 'half'"):
        Rotary(8, pairing="halves")


@pytest.mark.usefixtures("unchecked")
def test_queries_and_keys_that_do_not_fit_are_refused() -> None:
    placed = Rotary(8, pairing="half").at(arange(3))
    fits = torch.randn(2, 4, 3, 8)
    with pytest.raises(InvalidArgument, match=r"q has shape \(2, 4, 3, 6\); its last axis must be head_dim=8"):
        placed.rotate(fits[..., :6], fits)
    with pytest.raises(InvalidArgument, match="k has length 2 but the encoding was"):
        placed.rotate(fits, fits[:, :, :2])
    rows = Rotary(8, pairing="half").at(torch.zeros(3, 3, dtype=torch.int64))
    with pytest.raises(
        InvalidArgument, match="q has batch size 2 but the encoding was placed at 3 rows of positions"
    ):
        rows.rotate(fits, fits)
