"""Rotation as a formula that a compiler turns into one loop: stride-1 reads and writes, real arithmetic.

A model that compiles itself traces it and gets it fused with its neighbours. Both halves are rounded to the
output's type before they are joined.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def fusable(
    xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str, outs: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    """Every x turned by the tables; to be traced by a compiler."""
    turned = tuple(formula(x, cos, sin, pairing) for x in xs)
    return turned if outs is None else tuple(out.copy_(y) for out, y in zip(outs, turned, strict=True))


def formula(x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    """x turned; channels behind the pairs pass."""
    pairs = cos.shape[-1]
    source, tail = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if pairing == "half":
        a, b = source[..., :pairs], source[..., pairs:]
    else:
        a, b = source[..., ::2], source[..., 1::2]
    a, b = (a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype)
    parts = [a, b] if pairing == "half" else [torch.stack((a, b), dim=-1).flatten(-2)]
    return torch.cat([*parts, tail], dim=-1) if tail.shape[-1] or len(parts) > 1 else parts[0]
