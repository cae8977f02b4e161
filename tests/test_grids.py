"""Positions of grids: crops, centres, fractions of a picture, and pictures of several sizes in one batch."""

import pytest
import torch

from posenc.positions import centred, grid, left_padded_rows, midpoints, on_axes, packed_rows


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (grid(2, 3), [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]),
        (grid(2, 1, 2), [[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1]]),
        (grid(2, 2, corner=1), [[1, 1, 2, 2], [1, 2, 1, 2]]),
        (grid(2, 2, corner=-4, step=(8, 3)), [[-4, -4, 4, 4], [-4, -1, -4, -1]]),
    ],
)
def test_the_last_axis_is_fastest_wherever_a_grid_begins(made: torch.Tensor, want: list[list[int]]) -> None:
    assert torch.equal(made, torch.tensor(want))


def test_a_crop_is_a_part_of_its_picture() -> None:
    picture = grid(5, 7).view(2, 5, 7)
    assert torch.equal(grid(2, 3, corner=(3, 4)), picture[:, 3:5, 4:7].flatten(1))


def test_a_centred_grid_has_its_middle_at_zero() -> None:
    """As Qwen-Image's scaled ladder: −⌈n/2⌉ … ⌊n/2⌋−1."""
    rows, columns = centred(3, 4).unflatten(1, (3, 4)).unbind()
    assert rows[:, 0].tolist() == [-2, -1, 0]
    assert columns[0].tolist() == [-2, -1, 0, 1]


def test_midpoints_are_fractions_of_the_picture() -> None:
    """DINOv3's on 2×3 cells: rows at ∓1/2, columns at −2/3, 0, 2/3."""
    at = midpoints(2, 3, parts=6).unflatten(1, (2, 3))
    assert (at[0, :, 0] / 6).tolist() == [-0.5, 0.5]
    assert at[1, 0].tolist() == [-4, 0, 4]


def test_pictures_of_several_sizes_are_one_batch() -> None:
    small, large = grid(1, 2), grid(2, 2)
    at, mask = left_padded_rows([small, large])
    assert at.shape == (2, 2, 4)
    assert mask.tolist() == [[False, False, True, True], [True] * 4]
    assert torch.equal(at[:, 0, mask[0]], small)
    assert torch.equal(at[:, 1], large)
    assert at[:, 0, ~mask[0]].eq(0).all()


def test_pictures_of_several_sizes_are_packed_as_documents() -> None:
    at, segments = packed_rows([grid(1, 2), grid(2, 2)])
    assert at.tolist() == [[0, 0, 0, 0, 1, 1], [0, 1, 0, 1, 0, 1]]
    assert segments.tolist() == [0, 0, 1, 1, 1, 1]


def test_text_has_one_position_on_every_axis() -> None:
    assert on_axes(torch.tensor([4, 7]), 1).tolist() == [4, 7]
    assert on_axes(torch.tensor([[4, 7]]), 3).tolist() == [[[4, 7]]] * 3
