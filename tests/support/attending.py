"""A wrapper of ``posenc.attention`` for tests, so that only this file depends on its signature; gradients of two
ways to compute the same.
"""

from collections.abc import Sequence

import torch
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


def same_gradients(got: Tensor, want: Tensor, leaves: Sequence[Tensor], atol: float, relative: float = 0.0) -> None:
    """Compare the gradients of a weighted sum of both; the tolerance is ``atol`` + ``relative`` · max|gradient|.

    A leaf without a gradient has one of zeros.
    """
    weight = torch.randn_like(want)
    settings = {"allow_unused": True, "materialize_grads": True, "retain_graph": True}
    both = (torch.autograd.grad((y * weight).sum(), leaves, **settings) for y in (got, want))
    for mine, theirs in zip(*both, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=atol + relative * float(theirs.abs().max()))
