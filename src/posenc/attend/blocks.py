"""Attention in blocks of query rows, with gradients. Masks and biases are recomputed instead of stored.

The forward and backward passes need O(H·rows·S) extra memory for most masks and biases. The exception is a bias
that depends only on the offset: it is stored as a line, a tensor with one value per head and offset, and needs less
memory. An offset is the key's index minus the row's index, plus a constant. Counting the rows of a block backwards
turns this difference into a sum, so the mask of the reversed block is a view of the line with strides (1, 1). The
rows of the output are then put back into their original order.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from posenc.attend.call import AttentionCall
from posenc.kernels.attention.diagonals import Diagonals
from posenc.kernels.attention.softmax import (
    capped,
    finite,
    fused,
    fused_backward,
    fused_forward,
    plain_backward,
    plain_forward,
    products,
    with_sum,
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
        block = first, last, keys, start
        mask = call.sdpa_mask(*block) if masks.line is None else masks.at(*block)[0]
        (some,) = masks.flipped(q[:, :, first:last])
        of = k[:, :, start:keys], v[:, :, start:keys]
        (y,) = masks.flipped(call.attended(some, *of, mask))
        if out is None:
            blocks.append(y)
        else:  # written in place instead of concatenated afterwards
            out[:, :, first:last] = y
    return torch.cat(blocks, dim=2) if out is None else out


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


def recomputed(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Compute output and logsumexp, with gradients for q, k, v and the trained tensors of the bias."""
    q, k, v = readable(q, k, v)
    out, lse = _Recomputed.apply(call, q, k, v, *call.trained)
    return out, lse


def block_scores(
    q: Tensor, k: Tensor, call: AttentionCall, first: int, start: int = 0
) -> Float[Tensor, "B H rows S"]:
    """Compute q·kᵀ·scale + mask of a block with basic operators, by the formula of ``attend.dense.scores``."""
    scores = capped(products(q.to(call.dtype) * call.scale, k), call.softcap)
    read = scores if call.needs_scores else None
    return scores + call.additive_mask(first, first + q.shape[2], start + k.shape[2], start, read)


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, call: AttentionCall, q: Tensor, k: Tensor, v: Tensor, *trained: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.fused, total, ctx.single = fused(q, k, v) and call.backend != "operators", None, None
        if call.backend == "sdpa":
            ctx.single = None, call.is_causal
            out, lse = fused_forward(q, k, v, None, call.is_causal, call.scale)
        elif ctx.fused:
            masks, results = Masks(call, training_rows(q, k)), []
            for first, last, start, keys in masks:
                (rows,), (mask, largest) = masks.flipped(q[:, :, first:last]), masks.at(first, last, keys, start)
                block = fused_forward(rows, k[:, :, start:keys], v[:, :, start:keys], mask, False, call.scale)
                total = block[1] if largest is None else block[1] + largest[..., 0].to(block[1].dtype)
                results.append(masks.flipped(*block, total))
            out, lse, total = (
                torch.cat(parts, dim=2) if len(parts) > 1 else parts[0] for parts in zip(*results, strict=True)
            )
            is_small = mask.shape[2:] == (call.queries, call.all_keys) and mask.numel() <= FEW_SCORES
            if is_small and masks.line is None and not call.trained:
                ctx.single = mask, False
        else:
            out, lse = by_operators(q, k, v, call)
        total = lse if total is None else total
        ctx.save_for_backward(q, k, v, out, lse, total, *trained)
        ctx.call = call
        ctx.set_materialize_grads(False)
        return out, total

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse, total, *trained = ctx.saved_tensors
        call: AttentionCall = ctx.call
        if torch.is_grad_enabled():  # a second derivative is requested
            return (None, *_differentiable(grad, grad_lse, (q, k, v, *trained), call))
        # Gradients stop at these tensors; gradients through other uses, such as queries, are computed elsewhere.
        with torch.enable_grad():
            call = call.with_trained(tuple(x.detach().requires_grad_() for x in trained))
        grad = torch.zeros_like(out) if grad is None else grad
        n, m = q.shape[-1], v.shape[-1]
        through = ctx.fused and (call.backend == "toeplitz" or not trained)
        if grad_lse is not None and through:
            grad, out = with_sum(grad, out, -grad_lse)
            q, k, v = (pad(x, (0, grad.shape[-1] - m)) for x in (q, k, v))
        if ctx.single is not None:  # one block of all rows, whose mask was stored
            mask, is_causal = ctx.single
            dq, dk, dv = fused_backward(grad, q, k, v, mask, is_causal, call.scale, (out, lse))
            return None, dq[..., :n], dk[..., :n], dv[..., :m]
        masks = Masks(call, training_rows(q, k))
        diagonals = Diagonals(q, k, masks.size, call.dtype) if trained and masks.line is not None else None
        # In ``call.dtype``, because every block adds to dk and dv, and 16 bits would round each sum.
        dq, dk, dv = torch.empty_like(q), *(torch.zeros_like(x, dtype=call.dtype) for x in (k, v))
        trained_grads: list[Tensor | None] = [None for _ in trained]
        splits = ctx.fused and grad_lse is None and call.mask.only_causal
        for first, last, start, keys in masks:
            to, of = k[:, :, start:keys], v[:, :, start:keys]
            block = [x[:, :, first:last] for x in (grad, q, out, lse if through else total)]
            if through:
                rows, about, *result = masks.flipped(*block)
                (mask, _), sums = masks.at(first, last, keys, start), (result[0], result[1])
                if diagonals is None:
                    more_q, more_k, more_v = fused_backward(rows, about, to, of, mask, False, call.scale, sums)
                else:
                    place = call.queries - last + start
                    more_q, more_k, more_v = diagonals.backward(rows, about, to, of, mask, place, call.scale, sums)
                (more_q,) = masks.flipped(more_q)
            else:
                more_lse = None if grad_lse is None else grad_lse[:, :, first:last]
                more_q, more_k, more_v, *rest = _by_autograd(block, more_lse, to, of, call, first, start, splits)
                trained_grads = [b if a is None else a + b for a, b in zip(trained_grads, rest, strict=True)]
            dq[:, :, first:last] = more_q
            dk[:, :, start:keys] += more_k
            dv[:, :, start:keys] += more_v
        if diagonals is not None:
            trained_grads = [diagonals.line.to(x.dtype) if x is call.line else None for x in call.trained]
        dk, dv = dk.to(k.dtype), dv.to(v.dtype)
        return None, dq[..., :n], dk[..., :n], dv[..., :m], *trained_grads


def _by_autograd(
    block: list[Tensor],
    grad_lse: Tensor | None,
    k: Tensor,
    v: Tensor,
    call: AttentionCall,
    first: int,
    start: int,
    splits: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients of q, k, v and the trained tensors for one block. Autograd differentiates the scores. If
    ``splits`` is true, torch's kernel computes the gradients at the keys where every row has one bias.

    ``first`` is the block's first row and ``start`` its first key.
    """
    grad, q, out, lse = block
    with torch.enable_grad():
        q, k = q.detach().requires_grad_(), k.detach().requires_grad_()
        far = call.bias.far(first, first + q.shape[2]) if splits and call.bias is not None else None
        n, level = far or (0, None)
        scores = block_scores(q, k[:, :, n:], call, first, start + n)
    grad_scores, dv = plain_backward(grad, grad_lse, scores.detach(), v[:, :, n:], out, lse.to(scores.dtype), n > 0)
    inputs, outputs, given = (q, k, *call.trained), [scores], [grad_scores]
    if level is not None:  # the gradients of a row's scores add up to zero
        outputs.append(level)
        given.append(-grad_scores.sum(-1, keepdim=True))
    grads = torch.autograd.grad(outputs, inputs, given, allow_unused=True, retain_graph=bool(call.trained))
    dq, dk, *rest = (torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True))
    if level is not None:
        of = out, lse - level[..., 0].to(lse.dtype)
        far_q, far_k, far_v = fused_backward(grad, q, k[:, :, :n], v[:, :, :n], None, False, call.scale, of)
        dq, dk[:, :, :n], dv = dq + far_q, far_k, torch.cat((far_v, dv), 2)
    return dq, dk, dv, *rest


def _differentiable(
    grad: Tensor | None, grad_lse: Tensor | None, inputs: tuple[Tensor, ...], call: AttentionCall
) -> tuple[Tensor | None, ...]:
    """Compute the gradients with basic operators, which autograd can differentiate again."""
    # Views that do not depend on each other, so that a table that also affects q, through earlier layers, is not
    # counted twice.
    q, k, v, *trained = inputs = tuple(x.view_as(x) for x in inputs)
    out, lse = by_operators(q, k, v, call.with_trained(tuple(trained)))
    given = [(x, g) for x, g in ((out, grad), (lse, grad_lse)) if g is not None]
    wanted = [x for x in inputs if x.requires_grad]
    grads = iter(
        torch.autograd.grad(
            [x for x, _ in given], wanted, [g for _, g in given], create_graph=True, allow_unused=True
        )
    )
    return tuple(next(grads) if x.requires_grad else None for x in inputs)
