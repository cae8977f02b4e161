"""Attention in blocks of query rows with gradients. Nothing of the size of the scores is stored: the backward pass
computes scores, masks and biases again.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.attend.blocks import (
    FEW_SCORES,
    Masks,
    block_scores,
    by_operators,
    far_keys,
    in_two_parts,
    readable,
    training_rows,
)
from posenc.attend.call import AttentionCall
from posenc.kernels.attention.diagonals import Diagonals
from posenc.kernels.attention.softmax import fused, fused_backward, fused_forward, plain_backward, with_sum


def recomputed(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Compute output and logsumexp, with gradients for q, k, v and the trained tensors of the bias."""
    q, k, v = readable(q, k, v)
    return _Recomputed.apply(call, q, k, v, *call.trained)


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
            masks = Masks(call, training_rows(q, k))
            results: list[tuple[Tensor, ...]] = []
            for first, last, start, keys in masks:
                if (parts := in_two_parts(q[:, :, first:last], k, v, call, first, keys)) is not None:
                    results.append((*parts, parts[1]))
                    continue
                (rows,), (mask, largest) = masks.flipped(q[:, :, first:last]), masks.at(first, last, keys, start)
                block = fused_forward(rows, k[:, :, start:keys], v[:, :, start:keys], mask, False, call.scale)
                total = block[1] if largest is None else block[1] + largest[..., 0].to(block[1].dtype)
                results.append(masks.flipped(*block, total))
            out, lse, total = (
                torch.cat(parts, dim=2) if len(parts) > 1 else parts[0] for parts in zip(*results, strict=True)
            )
            is_all = len(results) == 1 and masks.line is None and mask.shape[-1] == call.all_keys
            if is_all and mask.numel() <= FEW_SCORES and not call.trained:
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
        dq, dk, dv = torch.zeros_like(q), *(torch.zeros_like(x, dtype=call.dtype) for x in (k, v))
        trained_grads = [torch.zeros_like(x) for x in trained]
        for first, last, start, keys in masks:
            to, of = k[:, :, start:keys], v[:, :, start:keys]
            block = [x[:, :, first:last] for x in (grad, q, out, lse if through else total)]
            into = dq[:, :, first:last], dk[:, :, start:keys], dv[:, :, start:keys]
            if through:
                rows, about, *result = masks.flipped(*block)
                (mask, _), sums = masks.at(first, last, keys, start), (result[0], result[1])
                if diagonals is None:
                    more_q, more_k, more_v = fused_backward(rows, about, to, of, mask, False, call.scale, sums)
                else:
                    place = call.queries - last + start
                    more_q, more_k, more_v = diagonals.backward(rows, about, to, of, mask, place, call.scale, sums)
                _add((*masks.flipped(more_q), more_k, more_v), into)
            else:
                more_lse = None if grad_lse is None else grad_lse[:, :, first:last]
                _by_autograd(block, more_lse, to, of, call, first, start, (*into, *trained_grads))
        dk, dv = dk.to(k.dtype), dv.to(v.dtype)
        if diagonals is None:
            return None, dq[..., :n], dk[..., :n], dv[..., :m], *trained_grads
        line_grads = (diagonals.line.to(x.dtype) if x is call.line else None for x in call.trained)
        return None, dq[..., :n], dk[..., :n], dv[..., :m], *line_grads


def _by_autograd(
    block: list[Tensor],
    grad_lse: Tensor | None,
    k: Tensor,
    v: Tensor,
    call: AttentionCall,
    first: int,
    start: int,
    into: tuple[Tensor, ...],
) -> None:
    """Add the gradients of q, k, v and the trained tensors for one block to the tensors ``into``. Autograd
    differentiates the scores, except at the keys where every row has one bias; there, torch's kernel computes the
    gradients.

    ``first`` is the block's first row and ``start`` its first key.
    """
    (grad, q, out, lse), (dq, dk, dv, *trained_grads) = block, into
    with torch.enable_grad():
        n, level = far_keys(call, q, k, v, first) if grad_lse is None else (0, None)
        q, near = q.detach().requires_grad_(), k[:, :, n:].detach().requires_grad_()
        scores = block_scores(q, near, call, first, start + n)
    grad_scores, near_v = plain_backward(
        grad, grad_lse, scores.detach(), v[:, :, n:], out, lse.to(scores.dtype), partial=n > 0
    )
    outputs, given = [scores], [grad_scores]
    if level is not None:  # the gradients of a row's scores add up to zero
        outputs.append(level)
        given.append(-grad_scores.sum(-1, keepdim=True))
    inputs = q, near, *call.trained
    grads = torch.autograd.grad(outputs, inputs, given, allow_unused=True, retain_graph=bool(call.trained))
    _add((*grads, near_v), (dq, dk[:, :, n:], *trained_grads, dv[:, :, n:]))
    if level is not None:
        of = out, lse - level[..., 0].to(lse.dtype)
        far = fused_backward(grad, q, k[:, :, :n], v[:, :, :n], None, False, call.scale, of)
        _add(far, (dq, dk[:, :, :n], dv[:, :, :n]))


def _add(grads: tuple[Tensor | None, ...], sums: tuple[Tensor, ...]) -> None:
    """Add gradients, in place, to the sums over blocks. None is a gradient of zero."""
    for x, total in zip(grads, sums, strict=True):
        if x is not None:
            total += x


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
