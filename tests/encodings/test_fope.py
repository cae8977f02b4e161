"""FoPE: dropped frequencies have cos = sin = 1, mixtures by their formula, and what it does not promise."""

import math

import pytest
import torch

from posenc import FoPE, Rotary
from posenc.positions import arange


def test_dropped_pairs_turn_by_45_degrees_and_grow() -> None:
    """Both tables are padded with 1, as the checkpoints were trained; a sine of 0 would be another model."""
    encoding = FoPE(16, 64, pairing="half")
    assert encoding.kept == sum(10_000 ** (-2 * i / 16) >= 2 * math.pi / 64 for i in range(8)) == 3
    cos, sin = encoding.tables(arange(5, offset=7))
    assert torch.equal(cos[..., 3:], torch.ones(1, 1, 5, 5))
    assert torch.equal(sin[..., 3:], torch.ones(1, 1, 5, 5))
    x = torch.zeros(1, 1, 5, 16)
    x[..., 5] = 1.0
    turned = encoding.at(arange(5, offset=7)).rotate(x, x)[0]
    assert torch.equal(turned[..., 5], torch.ones(1, 1, 5))
    assert torch.equal(turned[..., 13], torch.ones(1, 1, 5))


def test_without_spread_it_is_rotary_where_frequencies_are_kept() -> None:
    x, at = torch.randn(1, 2, 6, 8, dtype=torch.float64), arange(6, offset=50)
    encoding = FoPE(8, 2**20, pairing="interleaved", spread=0.0)
    assert encoding.kept == 4
    got = encoding.at(at, dtype=torch.float64).rotate(x, x)[1]
    want = Rotary(8, pairing="interleaved").at(at, dtype=torch.float64).rotate(x, x)[1]
    torch.testing.assert_close(got, want, rtol=0, atol=1e-15)


def test_mixtures_by_their_formula() -> None:
    """The first index of a coefficient is the frequency, the last the pair."""
    encoding = FoPE(8, 64, pairing="half", groups=2, kept=3).double()
    cos, sin = encoding.tables(torch.tensor([11]), torch.float64)
    angles = 11 * 10_000 ** (-torch.arange(3, dtype=torch.float64) / 4)
    for got, mixed, of_angles in ((cos, encoding.cos, angles.cos()), (sin, encoding.sin, angles.sin())):
        want = torch.einsum("gji,j->gi", mixed, of_angles)
        torch.testing.assert_close(got[0, :, 0, :3], want, rtol=0, atol=1e-14)


def test_fresh_coefficients_are_the_identity_and_some_noise() -> None:
    encoding = FoPE(128, 2**20, pairing="half", groups=8, spread=0.5)
    n = encoding.kept
    noise = encoding.cos.detach() - torch.eye(n)
    # Xavier's deviation √(2/(n + n)), of 8·n² draws: their standard deviation is known to 1/√(16·n²).
    assert noise.std().item() == pytest.approx(0.5 * n**-0.5, rel=5 / (4 * n))
