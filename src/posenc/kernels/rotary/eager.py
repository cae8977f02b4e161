"""Rotation with basic operators, block by block. Every block is rotated in place while it is in the CPU cache.

Results equal those of ``specification.rotate`` bit for bit.

Allocating an output takes longer than the arithmetic, because the pages of the output must be mapped. To save
passes over memory, a block is copied once, into the output (or to float32 if the input is narrower), and the copy
is rotated in place.
"""

import torch
from torch import Tensor

BLOCK = 1 << 18
"""The number of elements in a block, 1 MB in float32, which is about the size of a core's L2 cache. Sizes from
2^17 to 2^19 take the same time.
"""


def blockwise(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, out: Tensor | None) -> Tensor:
    """Rotate x by the tables cos and sin, into ``out`` (which may be x) or into new memory with the same strides.

    x may have any strides. Channels of x beyond the pairs of the tables are unchanged.
    """
    out, width = torch.empty_like(x) if out is None else out, 2 * cos.shape[-1]
    work = torch.promote_types(x.dtype, cos.dtype)
    if out is not x and width < x.shape[-1]:
        out[..., width:].copy_(x[..., width:])
    rows = max(1, BLOCK * x.shape[-2] // max(1, x.numel()))
    for first in range(0, x.shape[-2], rows):
        at = slice(first, first + rows)
        source, target = x[..., at, :width], out[..., at, :width]
        block = source.to(work) if x.dtype != work else source if out is x else target.copy_(source)
        _rotate_block(block, cos[..., at, :], sin[..., at, :], pairing)
        if x.dtype != work:
            # torch loses the sign of a negated view if a copy into it also changes the dtype.
            target.copy_(block.to(x.dtype) if out.is_neg() else block)
    return out


def _rotate_block(x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> None:
    """Rotate all channels of x in place."""
    if pairing == "interleaved":  # complex numbers would be faster, but may use fused multiply-add
        swapped = x.unflatten(-1, (-1, 2)).roll(1, -1).flatten(-2)
        cos, sin = torch.stack((cos, cos), -1).flatten(-2), torch.stack((-sin, sin), -1).flatten(-2)
        x.mul_(cos).add_(swapped.mul_(sin))
        return
    a, b = x.chunk(2, dim=-1)
    from_a, from_b = a * sin, b * sin  # separate products: a fused multiply-add rounds differently
    a.mul_(cos).sub_(from_b)
    b.mul_(cos).add_(from_a)
