"""Sandwich against its sum one cosine at a time, and positions of every kind."""

import math

import pytest
import torch

from posenc import Sandwich
from posenc.positions import arange, packed


def summed(distance: int, channels: int, first: int) -> float:
    return math.fsum(
        math.cos(distance * 10_000 ** (-2 * i / channels)) for i in range(first, first + channels // 2)
    )


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("distance", [0, 1, 63, 4097, 10**6])
def test_every_head_against_the_sum_written_out(distance: int, first: int) -> None:
    """Angles of math.cos are rounded by 2^-53 of up to 10^6 radians; ours are exact."""
    sandwich = Sandwich(3, channels=20, first=first)
    placed = sandwich.at(torch.tensor([distance]), torch.tensor([0]), dtype=torch.float64)
    want = [(summed(distance, 20, first) - 10) * 3 / (8 * h) for h in (1, 2, 3)]
    got = placed.bias.rows(0, 1, 1).flatten().tolist()
    assert got == pytest.approx(want, rel=0, abs=1e-13 + distance * 1e-15)


def test_products_of_sinusoids_are_the_sums_looked_up() -> None:
    """Positions that do not count up are multiplied, the others looked up: one function."""
    sandwich, at = Sandwich(4, channels=32), arange(50, offset=7)
    looked_up = sandwich.at(at, dtype=torch.float64).bias
    batched = sandwich.at(at[None], dtype=torch.float64).bias
    assert looked_up.toeplitz is not None
    assert batched.toeplitz is None
    a, b = (bias.rows(3, 40, 45) for bias in (looked_up, batched))
    # 32 products of float64 and their sum, at most 16, times the largest factor, 1/2.
    torch.testing.assert_close(a, b, rtol=0, atol=32 * 2.0**-53 * 16)


def test_in_float32_the_sum_is_rounded_once() -> None:
    at = packed([30, 20])[0]
    narrow, wide = (Sandwich(4).at(at, dtype=d).bias.rows(0, 50, 50) for d in (torch.float32, torch.float64))
    torch.testing.assert_close(narrow.double(), wide, rtol=2**-22, atol=0)
