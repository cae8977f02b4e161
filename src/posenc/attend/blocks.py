"""Attention in blocks of query rows. Masks and biases are computed block by block; for gradients, ``recomputed``
computes them again instead of storing them.

The forward and backward passes need O(H·rows·S) extra memory for most masks and biases. The exception is a bias
that depends only on the offset: it is stored as a line, a tensor with one value per head and offset, and needs less
memory. An offset is the key's index minus the row's index, plus a constant. Counting the rows of a block backwards
turns this difference into a sum, so the mask of the reversed block is a view of the line with strides (1, 1). The
rows of the output are then put back into their original order.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from posenc.attend.call import AttentionCall
from posenc.kernels.attention.softmax import (
    Block,
    capped,
    finite,
    fused,
    fused_forward,
    merge,
    plain_forward,
    products,
)

ROWS = 128
"""The number of query rows in a block. With more rows, the mask is larger; with fewer rows, keys are read more
often.
"""

WINDOW_ROWS = 64
"""The number of query rows in a block, if all blocks with a window are computed in one call. Small blocks compute
few scores outside the window.
"""

FEW_SCORES = 1 << 24
"""The largest number of scores or mask elements that are stored for gradients: 64 MB in float32."""

TRAINING_ROWS = 256
"""The number of query rows in a block, in calls with gradients. It is larger than ``ROWS``, because each block adds
to the gradients of all its keys and values.
"""

BLOCK_SCORES = 1 << 25
"""The number of scores in a block on a GPU: 128 MB in float32. Blocks are this large because a GPU waits for the
host between blocks. About four tensors of this size exist at a time.
"""


def training_rows(q: Tensor, k: Tensor) -> int:
    """Return the number of query rows per block, for calls with gradients and for calls on a GPU."""
    if q.is_cpu:
        return TRAINING_ROWS
    return max(TRAINING_ROWS, BLOCK_SCORES // max(1, q.shape[0] * q.shape[1] * k.shape[2]))


class Masks:
    """The masks of the blocks of an attention call.

    If ``line`` is set, it has one value per offset, and every mask is a view of it. Otherwise ``call`` computes the
    masks.
    """

    def __init__(self, call: AttentionCall, rows: int) -> None:
        self.call, self.size, self.line = call, rows, None
        if call.backend == "toeplitz" and call.line is not None:
            self.line, S, window = call.line.detach().to(call.dtype), call.all_keys, call.mask.window
            behind = max(0, S - window) if window else 0
            # In a causal block, a row has fewer future keys than the block has rows.
            ahead = (
                min(rows, call.queries) - 1 if call.mask.causal else max(0, call.queries - window) if window else 0
            )
            if behind or ahead:
                last = S if call.mask.causal else self.line.shape[1] - ahead
                self.line = pad(self.line[:, behind:last], (behind, ahead), value=-math.inf)

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (first row, last row, first key, last key) of each block; the last row and key are exclusive.

        These keys include every key that a row of the block sees. If there are no rows, yield one empty block.
        """
        mask, T, S = self.call.mask, self.call.queries, self.call.all_keys
        for first in range(0, max(T, 1), self.size):
            last = min(first + self.size, T)
            start, keys = mask.key_range(first, last, T, S)
            yield first, last, min(start, max(keys - 1, 0)), keys

    def at(self, first: int, last: int, keys: int, start: int = 0) -> tuple[Tensor, Tensor | None]:
        """Return the mask of a block for keys from ``start`` on. The rows are reversed if the mask is a view of a
        line.

        If the logsumexp is requested, the maximum of each row is subtracted from the row, and is also returned.
        Without this subtraction, a query that is far from all keys would have only large biases, and its scores
        would lose precision.
        """
        if self.line is None:
            mask = self.call.additive_mask(first, last, keys, start)
            largest = mask.amax(-1, keepdim=True) if self.call.needs_logsumexp else None
            return mask if largest is None else mask - finite(largest), largest
        tail = self.line[:, self.call.queries - last + start :]
        mask = tail.as_strided((1, tail.shape[0], last - first, keys - start), (0, self.line.shape[1], 1, 1))
        return mask, None

    def flipped(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Arrange rows in the order of the mask's rows. A second call restores the original order."""
        return tensors if self.line is None or self.call.queries == 1 else tuple([x.flip(2) for x in tensors])


def by_blocks(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Float[Tensor, "B H T V"]:
    """Compute every block with torch's attention, and leave gradients to autograd.

    This function is used in three cases: gradients are not needed; there is dropout; or the bias needs no gradient
    and torch's fused CPU kernel does not support q, k and v.
    """
    q, k, v = readable(q, k, v)
    out, blocks = None if torch.is_grad_enabled() else q.new_empty(*q.shape[:3], v.shape[-1]), []
    alike = range(0) if out is None else _rows_alike(call, WINDOW_ROWS)
    rows = ROWS if q.is_cpu else training_rows(q, k)
    masks = Masks(call, alike.step if alike else rows)
    if alike and out is not None:
        _slide(q, k, v, call, alike, out)
    for first, last, start, keys in masks:
        if first in alike:
            continue
        if out is not None and (parts := in_two_parts(q[:, :, first:last], k, v, call, first, keys)) is not None:
            out[:, :, first:last] = parts[0]
            continue
        block = first, last, keys, start
        (some,) = masks.flipped(q[:, :, first:last])
        of = k[:, :, start:keys], v[:, :, start:keys]
        # The mask has no name, so that it is freed before the next one is computed.
        y = call.attended(some, *of, call.sdpa_mask(*block) if masks.line is None else masks.at(*block)[0])
        (y,) = masks.flipped(y)
        if out is None:
            blocks.append(y)
        else:  # written in place instead of concatenated afterwards
            out[:, :, first:last] = y
    return torch.cat(blocks, dim=2) if out is None else out


def far_keys(call: AttentionCall, q: Tensor, k: Tensor, v: Tensor, first: int) -> tuple[int, Tensor | None]:
    """Return the number of first keys at which every row of a block has only one bias, and these biases; 0 if all
    keys are computed together. In 16 bits they are, because each part would be rounded.
    """
    if call.bias is None or call.needs_logsumexp or call.softcap is not None or call.dropout:
        return 0, None
    splits = call.queries > TRAINING_ROWS and call.dtype == q.dtype and call.mask.only_causal and fused(q, k, v)
    return (call.bias.far(first, first + q.shape[2]) if splits else None) or (0, None)


def in_two_parts(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall, first: int, keys: int) -> Block | None:
    """Compute a block in two parts, of which one needs no mask: the keys at which every row has one bias."""
    n, level = far_keys(call, q, k, v, first)
    if level is None:
        return None
    mask = call.additive_mask(first, first + q.shape[2], keys, n)
    near = fused_forward(q, k[:, :, n:keys], v[:, :, n:keys], mask, False, call.scale)
    out, lse = fused_forward(q, k[:, :, :n], v[:, :, :n], None, False, call.scale)
    return merge([near, (out, lse + level[..., 0])])


def _rows_alike(call: AttentionCall, rows: int) -> range:
    """Return, as a range, the first row of every block in which all rows see a full window of keys. If there are
    fewer than two such blocks, the range is empty.

    All these blocks have the same mask and bias.
    """
    window, behind = call.mask.window, call.all_keys - call.queries
    slides = window is not None and call.mask.causal and call.mask.by_offset and call.device.type == "cpu"
    if window is None or not slides or (call.bias is not None and call.bias.toeplitz is None):
        return range(0)
    first = -(-max(0, window - 1 - behind) // rows) * rows
    alike = range(first, call.queries - call.queries % rows, rows)
    return alike if len(alike) > 1 else range(0)


def _slide(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall, alike: range, out: Tensor) -> None:
    """Compute the blocks that start at the rows in ``alike``, and write the results to ``out``.

    Query heads that share a key head form a group. Each call to torch's attention computes all these blocks for one
    sequence and for one query head of every group. In the call, the axis of heads holds the blocks, and the batch
    axis holds the groups. The keys of neighbouring blocks are overlapping views.
    """
    first, last = alike.start, alike.start + alike.step
    T, S = call.queries, call.all_keys
    start, keys = call.mask.key_range(first, last, T, S)
    mask = call.sdpa_mask(first, last, keys, start)
    group = q.shape[1] // k.shape[1]

    def blocks(x: Tensor, begin: int, length: int) -> Tensor:
        head, token, _ = x.stride()
        size = x.shape[0], len(alike), length, x.shape[2]
        return x[:, begin:].as_strided(size, (head, alike.step * token, token, 1))

    for row in range(q.shape[0]):
        of = blocks(k[row], start, keys - start), blocks(v[row], start, keys - start)
        for member in range(group):
            some = mask if mask.shape[1] == 1 else mask[0, member::group, None]
            queries = blocks(q[row, member::group], first, alike.step)
            out[row, member::group, first : alike.stop] = call.attended(queries, *of, some).flatten(1, 2)


def readable(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Make the last axis of tensors contiguous, as torch's CPU kernel requires."""
    return tuple([x if x.stride(-1) == 1 else x.contiguous() for x in tensors])


def by_operators(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Compute output and logsumexp with basic operators, which support every transform in ``torch.func``. During
    export, compute a single block, because the length may be dynamic.
    """
    if torch.compiler.is_exporting():
        return plain_forward(block_scores(q, k, call, 0), v)
    results = []
    for first, last, start, keys in Masks(call, training_rows(q, k)):
        scores = block_scores(q[:, :, first:last], k[:, :, start:keys], call, first, start)
        results.append(plain_forward(scores, v[:, :, start:keys]))
    out, lse = (torch.cat(parts, dim=2) for parts in zip(*results, strict=True))
    return out, lse


def block_scores(
    q: Tensor, k: Tensor, call: AttentionCall, first: int, start: int = 0
) -> Float[Tensor, "B H rows S"]:
    """Compute q·kᵀ·scale + mask of a block with basic operators, by the formula of ``attend.dense.scores``."""
    scores = capped(products(q.to(call.dtype) * call.scale, k), call.softcap)
    read = scores if call.needs_scores else None
    return scores + call.additive_mask(first, first + q.shape[2], start + k.shape[2], start, read)
