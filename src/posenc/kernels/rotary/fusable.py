"""Rotation for compilers: the specification, which they fuse with neighbouring operators.

It is called through the one differentiable operation like every engine, since a backward pass that a compiler
derives from the formula takes 1.6 to 3.5 times as long as a rotation back.
"""

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from posenc.kernels.rotary.specification import Pairing, rotate


def fusable(
    xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str, outs: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    """Every x rotated by the tables; to be traced by a compiler."""
    rotated = tuple(rotate(x, cos, sin, cast(Pairing, pairing)) for x in xs)
    if outs is not None:
        return tuple(out.copy_(y) for out, y in zip(outs, rotated, strict=True))
    # Interleaved pairs are a view, and in torch 2.11 a compiled function that returns a view has zero gradients.
    return tuple(y.clone() for y in rotated) if pairing == "interleaved" else rotated
