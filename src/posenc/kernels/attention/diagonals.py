"""Gradients of a learned bias, computed as sums of the scores' gradients along diagonals.

The bias has one value per offset, and these values form a line. Rows are reversed, as in attend/blocks.py, so that
the value for row r and key s is at index r + s of the line. Each row of the scores' gradients is padded with as
many zeros as there are rows. The same memory is then viewed as a matrix whose rows have one element fewer than a
padded row, so that each diagonal becomes a column. Matrix products are computed in float32 or wider, in memory
that all blocks share.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.kernels.attention.softmax import Block, split


class Diagonals:
    """Computes gradients for blocks of at most ``rows`` query rows. ``line``, of shape ``(H, S+T−1)``, accumulates
    the gradient of the bias for every offset.
    """

    def __init__(
        self, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K S D"], rows: int, dtype: torch.dtype
    ) -> None:
        B, H, T, _ = q.shape
        longest = min(rows, T)
        size = B * H * longest * (k.shape[2] + longest)
        self.first, self.second = (torch.empty(size, dtype=dtype, device=q.device) for _ in range(2))
        self.line = q.new_zeros(H, k.shape[2] + T - 1, dtype=dtype)

    def backward(
        self,
        grad: Float[Tensor, "B H rows V"],
        q: Float[Tensor, "B H rows D"],
        k: Float[Tensor, "B K S D"],
        v: Float[Tensor, "B K S V"],
        mask: Float[Tensor, "1 H rows S"],
        place: int,
        scale: float,
        of: Block,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of q, k and v for a block whose bias begins at index ``place`` of the line."""
        (out, lse), compute_dtype = of, mask.dtype
        (B, H, R, _), (_, K, S, _) = q.shape, k.shape
        grad, q = (split(x.to(compute_dtype), K).flatten(0, 1) for x in (grad, q))
        k, v = (x.to(compute_dtype).flatten(0, 1) for x in (k, v))
        inner = (grad * split(out.to(compute_dtype), K).flatten(0, 1)).sum(-1, keepdim=True)

        padded = self.first[: B * H * R * (S + R)].view(B, H, R, S + R)
        padded[..., S:] = 0
        torch.sub(mask, lse.to(compute_dtype)[..., None], out=padded[..., :S])
        weights = padded.view(B * K, H // K * R, S + R)[..., :S]
        weights.baddbmm_(q, k.mT, alpha=scale).exp_()
        dv = weights.mT @ grad
        weighed = self.second[: B * H * R * S].view(B * K, H // K * R, S)
        torch.baddbmm(inner, grad, v.mT, beta=-1, out=weighed)
        scores = weights.mul_(weighed)

        dq, dk = (scores @ k).mul_(scale).view(B, H, R, -1), (scores.mT @ q).mul_(scale)
        strides = H * R * (S + R), R * (S + R), S + R - 1, 1
        self.line[:, place : place + R + S - 1] += padded.as_strided((B, H, R, S + R - 1), strides).sum(2).sum(0)
        return dq, dk.view(B, K, S, -1), dv.view(B, K, S, -1)
