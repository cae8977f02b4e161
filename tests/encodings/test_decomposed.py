"""Decomposed tables: SAM's own module, other sizes, refusals."""

import pytest
import torch

import posenc
from posenc import Decomposed, Rotary, Stack
from posenc.encodings.axes import axial
from posenc.positions import grid


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (4, 4)])
def test_sams_bias(rows: int, columns: int) -> None:
    theirs = pytest.importorskip("transformers.models.sam.modeling_sam").SamVisionAttention
    ours = Decomposed(8, 2, size=(rows, columns), std=1.0).double()
    q, k = torch.randn(2, 1, 2, rows * columns, 8, dtype=torch.float64)
    y, x = ours.tables
    self = type("Attention", (), {"get_rel_pos": theirs.get_rel_pos})()
    size = (rows, columns)
    said = theirs.get_decomposed_rel_pos(self, q[0], y, x, size, size).reshape(2, rows * columns, rows * columns)
    got = posenc.scores(q, k, ours.at(grid(rows, columns), dtype=torch.float64))
    torch.testing.assert_close(got[0], q[0] @ k[0].mT / 8**0.5 + said, rtol=0, atol=1e-13)


def test_other_sizes_read_between_rows_as_sam_does() -> None:
    modeling = pytest.importorskip("transformers.models.sam.modeling_sam")
    ours = Decomposed(8, 2, size=(3, 5), std=1.0)
    larger = ours.resized(7, 4)
    assert larger.size == (7, 4)
    q, k = torch.randn(2, 1, 2, 28, 8)
    per_axis = [  # (q, k, D)
        modeling.SamVisionAttention.get_rel_pos(None, places, places, table)
        for places, table in zip((7, 4), ours.tables, strict=True)
    ]
    by_place = q[0].view(2, 7, 4, 8)
    rows = torch.einsum("hyxd,ykd->hyxk", by_place, per_axis[0])[..., :, None]
    columns = torch.einsum("hyxd,xkd->hyxk", by_place, per_axis[1])[..., None, :]
    want = q[0] @ k[0].mT / 8**0.5 + (rows + columns).reshape(2, 28, 28)
    torch.testing.assert_close(posenc.scores(q, k, larger.at(grid(7, 4)))[0], want, rtol=0, atol=1e-5)


def test_resized_tables_train_those_that_they_are_made_from() -> None:
    """As SAM's do, and as a resized grid's do: the larger picture is another reading of the same parameters."""
    ours = Decomposed(8, 2, size=(3, 5), std=1.0)
    larger, q = ours.resized(7, 4), torch.randn(1, 2, 28, 8)
    assert [a is b for a, b in zip(larger.parameters(), ours.parameters(), strict=True)] == [True, True]
    posenc.attention(q, q, q, larger.at(grid(7, 4))).square().sum().backward()
    assert all(table.grad is not None and bool(table.grad.any()) for table in ours.tables)
    q, at = torch.randn(1, 2, 15, 8), grid(3, 5)
    assert torch.equal(*(posenc.scores(q, q, tables.at(at)) for tables in (ours, ours.resized(3, 5))))


def test_a_picture_that_fits_leaves_the_tables_and_a_larger_one_resizes_them() -> None:
    tables = Decomposed(8, 2, size=(4, 5))
    assert tables.enlarged(4, 3) is tables
    larger = tables.enlarged(6, 5)
    assert larger.size == (6, 5)
    q = torch.randn(1, 2, 30, 8)
    assert torch.equal(*(posenc.scores(q, q, one.at(grid(6, 5))) for one in (larger, tables.resized(6, 5))))
    stack = Stack(Rotary(8, pairing="half", axes=axial(2, 2)), tables)
    assert stack.enlarged(4, 5) is stack
    assert stack.enlarged(6, 5).encodings[1].size == (6, 5)
    layers = posenc.encoding("layers(decomposed(size=(4, 5)) + nope)", heads=2, head_dim=8, layers=4)
    again = layers.enlarged(6, 6)
    assert [again.layer(i).name for i in range(4)] == ["decomposed", "nope"] * 2
    assert again.layer(2).size == (6, 6)
    assert layers.layer(2).size == (4, 5)
