"""A wrapper of ``posenc.attention`` for tests, so that only this file depends on its signature."""

from torch import Tensor

import posenc


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: posenc.Placed,
    *,
    causal: bool = False,
    key_mask: Tensor | None = None,
    segments: Tensor | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Tensor:
    """Call ``posenc.attention`` with a mask from these arguments; ``segments`` has an entry for every key."""
    T = q.shape[2]
    own = None if segments is None else segments[..., segments.shape[-1] - T :]
    mask = posenc.Mask(causal=causal, key_mask=key_mask, q_segments=own, k_segments=segments)
    return posenc.attention(q, k, v, placed, mask, scale=scale, backend=backend)
