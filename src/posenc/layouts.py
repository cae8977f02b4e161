"""Other layouts at the border: views of what other libraries hold, nothing copied.

The library works on ``(B, H, T, D)``, and no shape tells which axis is which: a caller that holds another layout
says so, once, where its tensors come in; ``.transpose(1, 2)`` gives results its layout. Rotation, in place too, and
attention take any strides.
"""

from jaxtyping import Float
from torch import Tensor

from posenc.arguments import tensors
from posenc.errors import InvalidArgument


def from_bthd(x: Float[Tensor, "B T H D"]) -> Float[Tensor, "B H T D"]:
    """FlashAttention's layout, seen as ours."""
    tensors(x=x)
    if x.dim() != 4:
        raise InvalidArgument(
            f"x has shape {tuple(x.shape)}; expected (B, T, H, D), or from_packed for (total, H, D)"
        )
    return x.transpose(1, 2)


def from_packed(x: Float[Tensor, "total H D"]) -> Float[Tensor, "1 H total D"]:
    """Documents laid end to end, as varlen kernels hold them, as one sequence of ours.

    Its positions and segments: ``posenc.positions.from_cu_seqlens(cu_seqlens)``.
    """
    tensors(x=x)
    if x.dim() != 3:
        raise InvalidArgument(
            f"x has shape {tuple(x.shape)}; expected (total, H, D), or from_bthd for (B, T, H, D)"
        )
    return x.transpose(0, 1)[None]
