"""Sinusoids of a grid against their formula, as MAE lays it out, and what they refuse."""

import torch

from posenc import Sinusoidal, SinusoidalGrid
from posenc.encodings.axes import axial
from posenc.positions import grid


def test_mae() -> None:
    """Columns before rows, and all sines of a coordinate before its cosines; in float64 from the formula."""
    at = grid(5, 7)
    ladder = 10_000.0 ** -(torch.arange(4, dtype=torch.float64) / 4)
    x, y = (at[axis].double()[:, None] * ladder for axis in (1, 0))
    want = torch.cat((x.sin(), x.cos(), y.sin(), y.cos()), 1)
    table = SinusoidalGrid(16, axes=axial(4, 4, order=(1, 0)), order="block")
    torch.testing.assert_close(table.table(at, torch.float64), want, rtol=0, atol=1e-14)


def test_each_axis_is_the_table_of_half_the_width() -> None:
    at = torch.randint(10**6, (2, 9))
    halves = [Sinusoidal(8).table(at[axis]) for axis in range(2)]
    assert torch.equal(SinusoidalGrid(16).table(at), torch.cat(halves, 1))


def test_one_axis_is_the_table_of_a_line() -> None:
    at = torch.randint(10**6, (9,))
    assert torch.equal(SinusoidalGrid(16, axes=axial(8)).table(at), Sinusoidal(16).table(at))
