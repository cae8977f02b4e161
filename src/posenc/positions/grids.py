"""Grid positions: all points of an image or video, with one coordinate per axis. The last axis varies fastest."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.arguments import as_integer, instance, tensors
from posenc.errors import InvalidArgument

Device = torch.device | str | None


def grid(
    *shape: int, corner: int | Sequence[int] = 0, step: int | Sequence[int] = 1, device: Device = None
) -> Int[Tensor, "A T"]:
    """Return all points of a grid, such as rows 0 0 0 1 1 1 and columns 0 1 2 0 1 2 for ``grid(2, 3)``. Point i
    of an axis has the coordinate ``corner + step·i``.

    Args:
        shape: the number of points along every axis, such as rows and columns, or frames, rows and columns.
        corner: the coordinates of the first point, as one number for all axes or one number per axis. It can be the
            offset of a crop in its image, or 1 if a model counts from 1. Negative coordinates need an encoding that
            is ``signed``.
        step: the step between neighbouring points, as one number for all axes or one number per axis.

    The result is int64 ``(A, T)``; A is the number of axes, and T is the product of the shape.
    """
    shape = tuple(as_integer(n, f"shape[{axis}]") for axis, n in enumerate(shape))
    if not shape or any(n < 1 for n in shape):
        raise InvalidArgument(f"shape={shape} must be at least 1 on every axis; omit empty images")
    corners, steps = _each(corner, "corner", len(shape)), _each(step, "step", len(shape))
    lines = [
        first + by * torch.arange(n, dtype=torch.int64, device=device)
        for n, first, by in zip(shape, corners, steps, strict=True)
    ]
    return torch.stack(torch.meshgrid(*lines, indexing="ij")).flatten(1)


def centred(*shape: int, device: Device = None) -> Int[Tensor, "A T"]:
    """Return a centred grid with coordinates −⌈n/2⌉ … ⌊n/2⌋−1 on every axis (Qwen-Image), for signed encodings."""
    return grid(*shape, corner=[-((n + 1) // 2) for n in shape], device=device)


def midpoints(*shape: int, parts: int, device: Device = None) -> Int[Tensor, "A T"]:
    """Return the midpoints of the cells of an image that spans −1 to 1, in units of 1/parts (DINOv3).

    Cell i of n is at (2i + 1 − n)/n, so the result is (2i + 1 − n)·parts/n. To make the result an exact integer,
    ``parts`` must be a multiple of the number of cells on every axis. For images of several sizes, use ``math.lcm``
    of all these numbers. Set the encoding's ``units`` to 1/parts.
    """
    parts = as_integer(parts, "parts")
    if any(n < 1 or parts % n for n in shape):
        raise InvalidArgument(
            f"parts={parts} must be a multiple of the number of cells on every axis, {shape}; use math.lcm of all "
            "these numbers"
        )
    return grid(
        *shape, corner=[(1 - n) * (parts // n) for n in shape], step=[2 * parts // n for n in shape], device=device
    )


def left_padded_rows(rows: Sequence[Int[Tensor, "A _"]]) -> tuple[Int[Tensor, "A B T"], Bool[Tensor, "B T"]]:
    """Return a left-padded batch of position sequences ``(A, T)``, and a mask that is True for real tokens.

    Padding has position 0; hide padding with ``key_mask=mask`` in attention.
    """
    _check_rows(rows)
    longest = max(row.shape[1] for row in rows)
    padded = [torch.nn.functional.pad(row, (longest - row.shape[1], 0)) for row in rows]
    at = torch.arange(longest, device=rows[0].device)
    return torch.stack(padded, 1), torch.stack([at >= longest - row.shape[1] for row in rows])


def packed_rows(rows: Sequence[Int[Tensor, "A _"]]) -> tuple[Int[Tensor, "A T"], Int[Tensor, " T"]]:
    """Concatenate position sequences ``(A, T)``, such as the positions of several images, and return the positions
    and the segments.

    Pass the segments to attention, so that tokens of an image do not see other images.
    """
    _check_rows(rows)
    lengths = torch.tensor([row.shape[1] for row in rows], device=rows[0].device)
    return torch.cat(list(rows), 1), torch.arange(len(rows), device=rows[0].device).repeat_interleave(lengths)


def _check_rows(rows: Sequence[Tensor]) -> None:
    instance(rows, list | tuple, "rows", "a list of tensors, [row, …]")
    tensors(**{f"rows[{i}]": row for i, row in enumerate(rows)})
    if not rows or any(row.dim() != 2 or row.shape[0] != rows[0].shape[0] for row in rows):
        raise InvalidArgument(
            f"rows have shapes {[tuple(row.shape) for row in rows]}; expected at least one row, all of shape "
            "(A, T) with the same A"
        )


def _each(value: int | Sequence[int], name: str, axes: int) -> list[int]:
    """Return one integer per axis. ``value`` is one integer for all axes, or a sequence with one integer per
    axis.
    """
    values = list(value) if isinstance(value, Sequence) else [value] * axes
    if len(values) != axes:
        raise InvalidArgument(
            f"{name}={value} has {len(values)} numbers for {axes} axes; pass one number, or {axes} numbers"
        )
    return [as_integer(n, name) for n in values]
