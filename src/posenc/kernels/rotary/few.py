"""Rotation of so few elements, as in a decoding step, that the count of operator calls is the price.

    x·(cos, cos) + swapped·(−sin, sin)

where a roll swaps halves and a gather swaps neighbours. Plain operators: autograd and transforms see through.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

FEW = 1 << 15
"""Up to this many elements the count of operator calls is the price, not the bytes."""

Wide = tuple[Tensor, Tensor, Tensor]


def wide_tables(cos: Tensor, sin: Tensor, pairing: str) -> Wide:
    """What ``few`` reads: cos twice, −sin and sin, as wide as the vectors, and the channel to swap each with."""
    channels = torch.arange(2 * cos.shape[-1], device=cos.device)
    if pairing == "half":
        return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1), channels.roll(cos.shape[-1])
    return torch.stack((cos, cos), -1).flatten(-2), torch.stack((-sin, sin), -1).flatten(-2), channels ^ 1


def few(q: Tensor, k: Tensor | None, wide: Wide, pairing: str) -> Sequence[Tensor]:
    """q and k, alike but for their heads, rotated together; or q alone. All their channels rotate."""
    cos, sin, order = wide
    x = q if k is None else torch.cat((q, k), 1)
    work = x if x.dtype == cos.dtype else x.to(cos.dtype)
    swapped = work.roll(work.shape[-1] // 2, -1) if pairing == "half" else work.gather(-1, order.expand_as(work))
    y = (work * cos).add_(swapped * sin)  # rounded as the specification rounds; addcmul would fuse
    y = y if y.dtype == q.dtype else y.to(q.dtype)
    return (y,) if k is None else torch.split_with_sizes(y, (q.shape[1], k.shape[1]), 1)
