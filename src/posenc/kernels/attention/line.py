"""Attention under a bias that lies on a line: a block's mask is a view of it, and costs no memory.

With the rows of a block reversed, the bias depends on row + key alone, so a view with strides (1, 1) over the line
is the block's mask. Rows are turned back afterwards.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

ROWS = 128
"""Query rows of one block: few, so that its mask stays small, yet enough to read a long line of keys seldom."""

TRAINING_ROWS = 256
"""Query rows of one block where gradients flow: each block adds to the gradients of all its keys and values."""


def along_line(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    v: Float[Tensor, "B K S V"],
    line: Float[Tensor, "H offsets"],
    causal: bool,
    scale: float,
    dropout: float,
) -> Float[Tensor, "B H T V"]:
    """Attention of the last T of S consecutive tokens; ``line`` holds the bias at the offsets −(S−1) … S−1."""
    T, S = q.shape[2], k.shape[2]
    line = line.to(mask_dtype(q))
    if causal:  # of the future, a block sees at most as many keys as it has rows
        line = torch.cat((line[:, :S], line.new_full((line.shape[0], TRAINING_ROWS), -math.inf)), dim=1)
    # Where nothing is differentiated or mapped, blocks are written where they belong instead of joined afterwards.
    straight = not torch.is_grad_enabled() and not torch._C._are_functorch_transforms_active()
    out = q.new_empty(*q.shape[:3], v.shape[-1]) if straight else None
    blocks = []
    for first, last, keys in row_blocks(T, S, causal):
        rows = last - first
        mask = line[:, T - last :].as_strided((1, line.shape[0], rows, keys), (0, line.shape[1], 1, 1))
        block = sdpa(
            q[:, :, first:last].flip(2),
            k[:, :, :keys],
            v[:, :, :keys],
            attn_mask=mask,
            scale=scale,
            dropout_p=dropout,
            enable_gqa=q.shape[1] != k.shape[1],
        ).flip(2)
        if out is None:
            blocks.append(block)
        else:
            out[:, :, first:last] = block
    return torch.cat(blocks, dim=2) if out is None else out


def mask_dtype(q: Tensor) -> torch.dtype:
    """float32 under 16-bit q; float64 under float64, where torch 2.13's CPU kernel misreads a float32 mask."""
    return torch.promote_types(q.dtype, torch.float32)


def row_blocks(T: int, S: int, causal: bool) -> Iterator[tuple[int, int, int]]:
    """(first row, last row, keys that any of them may see) of every block; one empty block for no rows."""
    rows = TRAINING_ROWS if torch.is_grad_enabled() else ROWS
    for first in range(0, max(T, 1), rows):
        last = min(first + rows, T)
        yield first, last, last + S - T if causal else S
