"""Tables over axes: rows of a window, positions shared by a batch, LayoutLMv3's own module."""

import pytest
import torch

from posenc import Decomposed, Encoding, LayoutLM, Window, attention
from posenc.positions import arange, grid


def test_the_rows_of_the_smallest_window() -> None:
    at = grid(2, 2)
    offsets = at[:, None, :] - at[:, :, None]
    assert Window(1, size=(2, 2)).row(offsets).tolist() == [[4, 3, 1, 0], [5, 4, 2, 1], [7, 6, 4, 3], [8, 7, 5, 4]]


@pytest.mark.usefixtures("unchecked")  # a union of shapes takes the first that fits one argument
@pytest.mark.parametrize("encoding", [Window(2, size=(3, 4)), LayoutLM(2, std=1.0), Decomposed(8, 2, size=(3, 4))])
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_one_row_of_positions_may_meet_one_a_sequence(encoding: Encoding, batch: int) -> None:
    """Queries placed alike in every sequence, keys each at their own places, and the other way round."""
    one = torch.stack([arange(4) % 3] * encoding.axes)
    each = torch.stack([one.roll(row, -1) for row in range(batch)], dim=1)
    q, k, v = torch.randn(3, batch, 2, 4, 8)
    alike = one[:, None].expand_as(each)
    for at, whole in (((one, each), (alike, each)), ((each, one), (each, alike))):
        got, want = (attention(q, k, v, encoding.at(*places)) for places in (at, whole))
        torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


def test_layoutlmv3s_bias() -> None:
    """Their encoder's two tables and the text's, with x from the left edge and y from the bottom edge of a box."""
    from transformers import LayoutLMv3Config
    from transformers.models.layoutlmv3.modeling_layoutlmv3 import LayoutLMv3Encoder

    config = LayoutLMv3Config(
        hidden_size=16,
        num_attention_heads=2,
        num_hidden_layers=1,
        intermediate_size=16,
        has_relative_attention_bias=True,
        has_spatial_attention_bias=True,
    )
    theirs, ours = LayoutLMv3Encoder(config), LayoutLM(2)
    boxes = torch.randint(0, 1000, (1, 60, 4))
    with torch.no_grad():
        for table, linear in zip(
            ours.tables, (theirs.rel_pos_bias, theirs.rel_pos_x_bias, theirs.rel_pos_y_bias), strict=True
        ):
            table.weight.copy_(linear.weight.T)
        want = theirs._cal_1d_pos_emb(arange(60)[None]) + theirs._cal_2d_pos_emb(boxes)
        bias = ours.at(torch.stack((arange(60), boxes[0, :, 0], boxes[0, :, 3]))).bias
    torch.testing.assert_close(bias.rows(0, 60, 60), want, rtol=0, atol=1e-7)
