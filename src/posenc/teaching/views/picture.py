"""The view of an image cut into patches, with the number of each patch and its position on each axis."""

import math
from functools import lru_cache
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

import posenc
from posenc.arguments import one_of
from posenc.pictures.palette import PICTURE
from posenc.pictures.view import Heatmap, View, counted, labelled
from posenc.teaching.views.bounds import Bounds, bounded

SIDE = 224
"""The height and width of the image in pixels."""
AXIAL = """\
from posenc.positions import arange, grid

row, column = grid({side}, {side})[:, {token}]    # what axial RoPE rotates by
print(arange({count})[{token}], row, column)      # and what a table looks up
"""
MERGED = """\
from posenc.positions import Image, Text, multimodal

spans = [Text({before}), Image(2 * {side}, 2 * {side})]
positions, _ = multimodal(spans, "qwen2-vl")      # M-RoPE: time, row and column of every token
print(positions[:, {before} + {token}])
"""


@bounded
def cut(
    side: int = 16,
    row: Annotated[int, Bounds(0, 15, below="side")] = 7,
    column: Annotated[int, Bounds(0, 15, below="side")] = 5,
    before: Annotated[int, Bounds(1, 64)] = 3,
) -> View:
    """Show one patch of an image of 224 × 224 pixels, its number in the sequence, and its neighbours.

    Args:
        side: the number of patches per side. Qwen2-VL's vision tower has 16 patches of 14 pixels, and a ViT has 14
            patches of 16 pixels. Qwen2-VL's language model has 8 patches of 28 pixels, because it reads 2 × 2
            patches as one token.
        row, column: the position of the selected patch.
        before: the number of text tokens before the image, for the language model.
    """
    patch = SIDE // one_of("side", side, (16, 14, 8))
    token = row * side + column
    numbers = torch.arange(side * side).view(side, side)
    python: str = AXIAL
    says: dict[str, str] = {}
    if side == 8:
        spans = [posenc.positions.Text(before), posenc.positions.Image(2 * side, 2 * side)]
        place = posenc.positions.multimodal(spans, "qwen2-vl")[0][:, before + token].tolist()
        python, says = MERGED, {"M-RoPE: time, row, column": ", ".join(map(str, place))}
    down, across = (f"{patch * at}–{patch * at + patch - 1}" for at in (row, column))
    below = f"and the one below it {token + side}" if row + 1 < side else "in the last row"
    return View(
        f"The patch at row {row}, column {column} is number {token} of {side * side}, {below}",
        (
            Heatmap(
                "point at a patch",
                numbers.double(),
                counted("row", side),
                counted("column", side),
                "picture",
                limit=len(PICTURE) - 1.0,
                marked_rows=(row,),
                marked_columns=(column,),
                picture=_with_cuts(patch),
            ),
            _around(numbers, row, column),
        ),
        {"number in the line": token, **says, "pixels (rows, columns)": f"{down}, {across}"},
        python.format(side=side, token=token, count=side * side, before=before),
    )


def _around(numbers: Tensor, row: int, column: int) -> Heatmap:
    """Show the numbers of a patch and its neighbours, NaN outside the image."""
    framed = pad(numbers.double(), (1, 1, 1, 1), value=math.nan)[row : row + 3, column : column + 3]
    rows, columns = (
        labelled(name, (str(at) * (0 <= at < len(numbers)) for at in range(middle - 1, middle + 2)))
        for name, middle in (("row", row), ("column", column))
    )
    return Heatmap("number in the line; brighter is later", framed, rows, columns, "magnitude")


@lru_cache
def _with_cuts(patch: int) -> Float[Tensor, "224 224"]:
    """Draw the image with a line at the start of each patch."""
    at = torch.arange(SIDE) % patch == 0
    return torch.where(at | at[:, None], 2.0, painted())


def painted() -> Float[Tensor, "224 224"]:
    """Draw a cat in front of hills. Each pixel is an index into ``PICTURE``; shape k uses colours 2k and 2k + 1."""
    at = (torch.arange(SIDE, dtype=torch.float64) + 0.5) / SIDE
    y, x = torch.meshgrid(at, at, indexing="ij")

    def oval(across: float, down: float, wide: float, tall: float) -> Tensor:
        return ((x - across) / wide) ** 2 + ((y - down) / tall) ** 2 < 1

    def ear(across: float) -> Tensor:
        return (y > 0.35) & (y < 0.47) & ((x - across).abs() < 0.45 * (y - 0.35))

    def both(left: float, right: float, down: float, wide: float, tall: float) -> Tensor:
        return oval(left, down, wide, tall) | oval(right, down, wide, tall)

    sun = ((x - 0.76) ** 2 + (y - 0.24) ** 2).sqrt() / 0.11
    far, near = 0.52 + 0.06 * (9 * x + 1).sin() + 0.03 * (23 * x).sin(), 0.72 + 0.05 * (5 * x + 2.6).sin()
    tail = ((((x - 0.56) ** 2 + (y - 0.80) ** 2).sqrt() - 0.13).abs() < 0.025) & (x > 0.50) & (y > 0.70)
    head = oval(0.40, 0.50, 0.125, 0.11) | ear(0.33) | ear(0.47)
    cat = head | oval(0.40, 0.76, 0.15, 0.19) | both(0.33, 0.47, 0.93, 0.06, 0.03) | tail
    picture = (y / 0.7).clamp(max=1)
    for shape, colour in (
        (sun < 1, 2 + sun),
        (y > far, 4 + ((y - far) / 0.3).clamp(max=1)),
        (y > near, 6 + ((y - near) / 0.3).clamp(max=1)),
        (cat, 8 + ((x - 0.25) / 0.3).clamp(0, 1)),
        (oval(0.40, 0.80, 0.07, 0.11), 9.6),
        (both(0.355, 0.445, 0.485, 0.028, 0.022), 10.0),
        (both(0.355, 0.445, 0.485, 0.009, 0.02) | oval(0.40, 0.54, 0.014, 0.009), 11.0),
    ):
        picture = torch.where(shape, colour, picture)
    return picture
