"""Sinusoids of a grid against DETR and the formula of MAE's code, and what they refuse."""

import math

import pytest
import torch

from posenc import Sinusoidal, SinusoidalGrid
from posenc.encodings.axes import axial
from posenc.errors import InvalidArgument
from posenc.positions import grid


@pytest.mark.parametrize("normalised", [False, True])
def test_detr(normalised: bool) -> None:
    """Theirs computes in float32: an angle of up to 40 or 2π is off by 2^-23 of it and by its frequency's rounding.

    Normalised, it also adds 1e-6 to the number of cells.
    """
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    rows, columns, parts = 12, 20, 60
    theirs = DetrSinePositionEmbedding(16, normalize=normalised)
    want = theirs(torch.Size((1, 3, rows, columns)), torch.device("cpu"), torch.float32)[0].flatten(1).T
    steps = (parts // rows, parts // columns) if normalised else (1, 1)
    unit = (f"1/{parts}",) * 2 if normalised else None
    table = SinusoidalGrid(32, axes=axial(8, 8, units=unit, turns=normalised))
    mine = table.table(grid(rows, columns, corner=steps, step=steps))
    far = 2 * math.pi if normalised else 20
    slack = 2 * math.pi * 1e-6 / rows if normalised else 0
    torch.testing.assert_close(mine, want, rtol=0, atol=far * 2**-23 * 11 + slack)


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


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SinusoidalGrid(10), "width=10 must be a multiple of 4 for two axes; or give axes"),
        (lambda: SinusoidalGrid(16, axes=axial(2, 2)), r"axes=axial\(2, 2\) has 4 pairs, 8 channels; width=16"),
        (lambda: SinusoidalGrid(16, order="rows"), "unknown order 'rows'"),
        (lambda: SinusoidalGrid(16).at(torch.arange(3)), r"positions has shape \(3,\); this encoding has 2 axes"),
    ],
)
def test_what_it_has_no_formula_for_is_refused(make, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()
