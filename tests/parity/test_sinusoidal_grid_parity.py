"""Sinusoids of a grid against DETR's in transformers."""

import math

import pytest
import torch

from posenc import SinusoidalGrid
from posenc.encodings.axes import axial
from posenc.positions import grid

pytestmark = pytest.mark.usefixtures("recent_transformers")


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
