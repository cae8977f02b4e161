"""A picture in patches: numbers and positions are the library's, and the cat is where its patches say."""

import pytest
import torch

import posenc
from posenc.pictures import wire
from posenc.pictures.compose import compose
from posenc.teaching.views.picture import SIDE, cut, painted
from support.blocks import strays


@pytest.mark.parametrize(("side", "row", "column"), [(16, 7, 5), (14, 3, 10), (8, 7, 0), (16, 15, 15)])
def test_a_patch_is_numbered_as_the_line_is_read(side: int, row: int, column: int) -> None:
    view = cut(side, row, column)
    flat = posenc.positions.grid(side, side)
    token = int(view.readouts["number in the line"])  # type: ignore[arg-type]
    assert flat[:, token].tolist() == [row, column]
    assert view.panels[1].values.shape == (3, 3)  # type: ignore[union-attr]
    for down, numbers in enumerate(view.panels[1].values.tolist(), -1):  # type: ignore[union-attr]
        for right, number in enumerate(numbers, -1):
            inside = row + down in range(side) and column + right in range(side)
            assert (number == number) == inside  # NaN outside
            assert not inside or flat[:, int(number)].tolist() == [row + down, column + right]
    assert strays(view) == []


def test_the_language_model_counts_on_from_the_text() -> None:
    """Qwen2-VL: a picture after three words stands at time 3, and rows and columns are counted from there."""
    assert cut(8, 3, 4).readouts["M-RoPE: time, row, column"] == "3, 6, 7"


def test_the_picture_is_painted_whole_and_its_patches_are_what_is_pointed_at() -> None:
    view = cut()
    sent = wire.view(view)["panels"][0]
    assert (sent["shape"], sent["across"], sent["legend"]) == ([16, 16], SIDE, [])
    assert len(sent["codes"]) * 3 // 4 >= SIDE * SIDE
    assert torch.equal(painted(), painted())
    eye, sky = painted()[round(0.485 * SIDE), round(0.345 * SIDE)], painted()[0, 0]
    assert float(eye) == 10.0
    assert 0 <= float(sky) < 0.01
    assert compose(view)[0].bar.legend == ()  # type: ignore[union-attr]
