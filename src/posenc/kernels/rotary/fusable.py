"""Rotation under compilers, in basic operators that compilers fuse with neighbouring operators.

Like all implementations of the rotation (called engines), ``fusable`` is called through ``Rotate``, whose backward
pass is the inverse rotation. A backward pass derived by the compiler takes 1.6 to 3.5 times as long.
"""

from typing import cast

from torch import Tensor

from posenc.kernels.rotary.specification import Pairing, rotate


def fusable(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, out: Tensor | None) -> Tensor:
    """Rotate x by the tables cos and sin, into new memory: under a compiler, ``out`` is always None."""
    rotated = rotate(x, cos, sin, cast(Pairing, pairing))
    # Interleaved pairs are a view; in torch 2.11, gradients of a compiled function that returns a view are zero.
    return rotated.clone() if pairing == "interleaved" else rotated
