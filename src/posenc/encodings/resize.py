"""Resizes learned tables to another number of cells, with one of several conventions for the interpolation weights.

If a table T of N cells is resized to n cells, new cell i is Σ_j w((j − c_i)/s)·T[j]. c_i is the position of the new
cell's centre in the table T:

    c_i = (i + ½)·N/n − ½,   or, with corners aligned,  c_i = i·(N − 1)/(n − 1)

w is the triangle kernel, or the cubic convolution kernel with parameter ``a`` (Robert Keys 1981). Without
antialiasing, s is 1, and cells beyond an edge have the value at the edge. With antialiasing, s is max(N/n, 1),
cells beyond an edge are omitted, and weights are normalised to a sum of 1. Rows and columns are resized one after
the other. Public implementations differ in all of these choices, and the differences between their results can be
as large as the table's entries.
"""

from dataclasses import dataclass
from math import ceil
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.scaling.checks import Checked


@dataclass(frozen=True)
class Resize(Checked):
    """A convention for resizing.

    Args:
        kernel: ``"linear"`` or ``"cubic"``.
        antialias: whether the kernel widens when the table shrinks. As in torch and Pillow, the parameter ``a`` of
            the cubic kernel is −1/2 with antialiasing and −3/4 without antialiasing.
        align_corners: whether the outermost cells keep their positions.
        slack: a number added to the new number of cells before the ratio of old to new cells is computed; 0.1 in
            DINO's code, to guard against rounding.
    """

    kernel: Literal["linear", "cubic"]
    antialias: bool = False
    align_corners: bool = False
    slack: float = 0.0


RESIZES: dict[str, Resize] = {
    "timm": Resize("cubic", antialias=True),
    "vit": Resize("cubic"),
    "dino": Resize("cubic", slack=0.1),
    "siglip2": Resize("linear", antialias=True),
    "qwen3-vl": Resize("linear", align_corners=True),
    "inkling2": Resize("linear"),
}
"""The conventions by name; each is named after the code that uses it. "vit" is also the convention of DINOv2 and
DeiT in transformers.
"""


def named(resize: str | Resize) -> Resize:
    """Return the convention with this name, or the argument itself if it is a ``Resize``."""
    return resize if isinstance(resize, Resize) else RESIZES[one_of("resize", resize, RESIZES)]


def taps(
    resize: Resize, index: Int[Tensor, "*S"], target: Int[Tensor, "*#S"] | int, source: int, stretch: float = 1.0
) -> tuple[Int[Tensor, "*S K"], Float[Tensor, "*S K"]]:
    """Return the cells of the table from which each new cell is interpolated, and their weights in float64.

    ``index`` holds the indices of new cells, ``target`` is the number of cells after resizing, and ``source`` is
    the number of cells of the table. ``stretch`` is the factor by which antialiasing widens the kernel.

    ``target`` may differ between cells, so one call handles images of several sizes. No tensor is copied to the
    host.
    """
    at = index.to(torch.float64)
    cells = target.to(torch.float64) if isinstance(target, Tensor) else target  # an int needs no copy to a device
    if resize.align_corners:
        gaps = (cells - 1).clamp(min=1) if isinstance(cells, Tensor) else max(cells - 1, 1)
        centre = at * (source - 1) / gaps
    else:
        centre = (at + 0.5) * source / (cells + resize.slack) - 0.5
    reach = ceil((2 if resize.kernel == "cubic" else 1) * stretch)  # cells on either side
    near = centre.floor().to(torch.int64)[..., None] + torch.arange(1 - reach, reach + 1, device=index.device)
    weights = _kernel(resize, (near - centre[..., None]) / stretch)
    if resize.antialias:
        weights = weights * ((near >= 0) & (near < source))
        weights = weights / weights.sum(-1, keepdim=True)
    return near.clamp(0, source - 1), weights


def matrix(
    resize: str | Resize, target: int, source: int, device: torch.device | None = None
) -> Float[Tensor, "target source"]:
    """Return the weights for one axis as a float64 matrix; ``matrix @ table`` is the table resized along the
    axis.
    """
    resize = named(resize)
    stretch = max(source / (target + resize.slack), 1.0) if resize.antialias else 1.0
    cells, weights = taps(resize, torch.arange(target, device=device), target, source, stretch)
    return weights.new_zeros(target, source).scatter_add(1, cells, weights)


def gathered(
    table: Float[Tensor, "N M C"],
    positions: Int[Tensor, "2 *S"],
    sizes: Int[Tensor, "2 *#S"],
    resize: str | Resize,
) -> Float[Tensor, "*S C"]:
    """Return the table entry at each token's position, as if the table were resized to the size of the token's
    image. Only gathers and sums are used.

    Args:
        table: rows, columns, channels.
        positions: row and column of every token in its image, ``(2, *S)``.
        sizes: the number of rows and columns of each token's image, in a shape that broadcasts to that of
            ``positions``.
        resize: a convention without antialiasing, because with antialiasing the sizes determine how many cells must
            be read.

    Sizes are tensors, so one compiled or exported graph (including an ONNX graph) works for all sizes. Sums and
    results are computed in float32 or wider.
    """
    resize = named(resize)
    if resize.antialias:
        raise InvalidArgument(
            f"resize={resize} is not supported here, because with antialiasing the number of table cells read for "
            "each token depends on the size of the image; resize the table first with LearnedGrid.resized(rows, "
            "columns)"
        )
    compute_dtype = torch.promote_types(table.dtype, torch.float32)
    rows, row_weights = taps(resize, positions[0], sizes[0], table.shape[0])
    columns, column_weights = taps(resize, positions[1], sizes[1], table.shape[1])
    cells = rows[..., :, None] * table.shape[1] + columns[..., None, :]
    weights = (row_weights[..., :, None] * column_weights[..., None, :]).to(compute_dtype)
    rows = torch.nn.functional.embedding(cells.flatten(-2), table.flatten(0, 1)).to(compute_dtype)
    return (rows * weights.flatten(-2)[..., None]).sum(-2)


def _kernel(resize: Resize, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return the weight of a cell at this distance from the kernel's centre."""
    x = x.abs()
    if resize.kernel == "linear":
        return (1 - x).clamp(min=0)
    a = -0.5 if resize.antialias else -0.75
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x <= 1, near, torch.where(x < 2, far, torch.zeros_like(x)))
