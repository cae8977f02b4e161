"""Conversions from the layouts of other libraries, as views without copies.

posenc uses the layout ``(B, H, T, D)``. A shape does not show which axis is which, so convert tensors once, at
the input, and convert results back with ``.transpose(1, 2)``. Rotation (also in place) and attention accept any
strides.
"""

from jaxtyping import Float
from torch import Tensor

from posenc.arguments import tensors
from posenc.errors import InvalidArgument


def from_bthd(x: Float[Tensor, "B T H D"]) -> Float[Tensor, "B H T D"]:
    """Return a ``(B, H, T, D)`` view of a tensor in FlashAttention's layout, ``(B, T, H, D)``."""
    tensors(x=x)
    if x.dim() != 4:
        raise InvalidArgument(
            f"x has shape {tuple(x.shape)}; expected (B, T, H, D); for (total, H, D), use from_packed()"
        )
    return x.transpose(1, 2)


def from_packed(x: Float[Tensor, "total H D"]) -> Float[Tensor, "1 H total D"]:
    """Return a view of concatenated documents in the layout of varlen kernels, ``(total, H, D)``, as one
    sequence.

    ``posenc.positions.from_cu_seqlens(cu_seqlens)`` gives its positions and segments.
    """
    tensors(x=x)
    if x.dim() != 3:
        raise InvalidArgument(
            f"x has shape {tuple(x.shape)}; expected (total, H, D); for (B, T, H, D), use from_bthd()"
        )
    return x.transpose(0, 1)[None]
