"""The specification of the rotation, which is its formula in basic torch operators. All other implementations must
give equal results.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

Pairing = Literal["half", "interleaved"]


def rotate(
    x: Float[Tensor, "*batch T D"],
    cos: Float[Tensor, "*table T pairs"],
    sin: Float[Tensor, "*table T pairs"],
    pairing: Pairing,
) -> Float[Tensor, "*batch T D"]:
    """Rotate the first ``2 × pairs`` channels of x. The other channels are unchanged.

    Except for the last axis, the axes of ``cos`` and ``sin`` broadcast against those of x: for x ``(B, H, T, D)``,
    the tables can be ``(T, pairs)`` or ``(B, 1, T, pairs)``.
    The result is computed in the wider of the dtypes of x and the tables, and rounded once to x's dtype. Negate
    ``sin`` to rotate back.
    """
    pairs = cos.shape[-1]
    rotary, tail = x[..., : 2 * pairs].to(torch.promote_types(x.dtype, cos.dtype)), x[..., 2 * pairs :]
    if pairing == "half":
        a, b = rotary[..., :pairs], rotary[..., pairs:]
        # Each half is rounded before they are concatenated, which saves one pass over memory.
        halves = (a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype)
        return torch.cat((*halves, tail), dim=-1)
    a, b = rotary[..., ::2], rotary[..., 1::2]
    both = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2).to(x.dtype)
    return torch.cat((both, tail), dim=-1) if tail.shape[-1] else both
