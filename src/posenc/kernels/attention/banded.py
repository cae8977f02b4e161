"""Blocks of rows whose far keys all get one number from their row: those without a mask, the near ones with theirs.

The parts are attended to one by one and put together by their logsumexps; of a mask there is the near part alone.
Gradients along a row of scores sum to zero, so that of the row's number is what the near ones leave.
"""

from jaxtyping import Float
from torch import Tensor

from posenc.kernels.attention.softmax import Block, fused_backward, fused_forward, merge

Number = Float[Tensor, "#B H rows 1"] | None
"""What a row gives its far keys; None for nothing."""


def banded_forward(
    q: Tensor, k: Tensor, v: Tensor, near: Tensor, beyond: Number, start: int, scale: float
) -> Block:
    """Output and logsumexp of rows that see the first ``start`` keys alike, and the others through ``near``."""
    out, lse = fused_forward(q, k[:, :, :start], v[:, :, :start], None, False, scale)
    lse = lse if beyond is None else lse + beyond[..., 0].to(lse.dtype)
    return merge([fused_forward(q, k[:, :, start:], v[:, :, start:], near, False, scale), (out, lse)])


def far_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, beyond: Number, scale: float, of: Block
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q and of the far keys and values, from output and logsumexp over all keys."""
    out, lse = of
    lse = lse if beyond is None else lse - beyond[..., 0].to(lse.dtype)
    return fused_backward(grad, q, k, v, None, False, scale, (out, lse))
