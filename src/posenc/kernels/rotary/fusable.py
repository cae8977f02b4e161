"""Rotation for compilers: the specification, which they fuse with neighbouring operators.

Like every engine, it is called through the one differentiable operation, since a backward pass derived by a
compiler takes 1.6 to 3.5 times as long as rotating back.
"""

from typing import cast

from torch import Tensor

from posenc.kernels.rotary.specification import Pairing, rotate


def fusable(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, out: Tensor | None) -> Tensor:
    """x rotated by the tables; to be traced by a compiler."""
    rotated = rotate(x, cos, sin, cast(Pairing, pairing))
    if out is not None:
        return out.copy_(rotated)
    # Interleaved pairs are a view, and in torch 2.11 a compiled function that returns a view has zero gradients.
    return rotated.clone() if pairing == "interleaved" else rotated
