"""The one way in which the tests of attention call it, so that its signature stands in one place."""

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
) -> Tensor:
    """``posenc.attention`` with everything that hides a key by its own name."""
    return posenc.attention(q, k, v, placed, causal=causal, key_mask=key_mask, segments=segments, scale=scale)
