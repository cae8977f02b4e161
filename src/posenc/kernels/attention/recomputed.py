"""Attention by blocks of rows whose masks and biases are made again in the backward pass instead of kept.

Extra memory is O(H·rows·S), forward and backward, whatever is hidden or added. Gradients flow to q, k, v and to
the values that a bias learns, and the logsumexp of every row comes along, with its gradient.
"""

import math
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.kernels.attention.block import (
    fused,
    fused_backward,
    fused_forward,
    plain_backward,
    plain_forward,
    products,
)

ROWS = 256
"""Query rows of one block where gradients flow: each block adds to the gradients of all its keys and values."""


class Recipe(Protocol):
    """What is added to the scores of a block of rows, made whenever it is asked for."""

    scale: float
    learned: tuple[Tensor, ...]
    needs_scores: bool
    wants_lse: bool

    def keys(self, last: int) -> int:
        """How many of the first keys the first ``last`` rows may see at most."""

    def mask(self, first: int, last: int, scores: Tensor | None = None) -> Float[Tensor, "#B #H rows S"]:
        """Bias, and −∞ at what is hidden, for the rows ``first`` to ``last`` and their first keys."""


def recomputed(q: Tensor, k: Tensor, v: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Output and logsumexp of all rows."""
    out, lse = _Recomputed.apply(recipe, q, k, v, *recipe.learned)
    return out, lse


def blocks(recipe: Recipe, T: int) -> Iterator[tuple[int, int, int]]:
    """(first row, last row, keys) of every block; one empty block for no rows."""
    for first in range(0, max(T, 1), ROWS):
        last = min(first + ROWS, T)
        yield first, last, recipe.keys(last)


def block_scores(q: Tensor, k: Tensor, recipe: Recipe, first: int, last: int) -> Float[Tensor, "B H rows S"]:
    """q·kᵀ·scale + mask of a block, by plain operators: what the eager specification says of it."""
    scores = products(q, k) * recipe.scale
    return scores + recipe.mask(first, last, scores if recipe.needs_scores else None)


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, recipe: Recipe, q: Tensor, k: Tensor, v: Tensor, *learned: Tensor
    ) -> tuple[Tensor, Tensor]:
        whole = fused(q, k, v) and not recipe.needs_scores and not recipe.wants_lse
        outs, lses = [], []
        for first, last, keys in blocks(recipe, q.shape[2]):
            rows, to, of = q[:, :, first:last], k[:, :, :keys], v[:, :, :keys]
            if whole:
                out, lse = fused_forward(rows, to, of, recipe.mask(first, last), recipe.scale)
            else:
                out, lse = plain_forward(block_scores(rows, to, recipe, first, last), of)
            outs.append(out)
            lses.append(lse)
        out, lse = torch.cat(outs, dim=2), torch.cat(lses, dim=2)
        ctx.save_for_backward(q, k, v, out, lse, *learned)
        ctx.recipe, ctx.whole = recipe, whole
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse, *learned = ctx.saved_tensors
        recipe: Recipe = ctx.recipe
        if torch.is_grad_enabled():  # somebody wants the gradient of a gradient
            return (None, *_differentiable(grad, grad_lse, q, k, v, recipe))
        grad = torch.zeros_like(out) if grad is None else grad
        own = [torch.zeros_like(tensor) for tensor in learned]
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for first, last, keys in blocks(recipe, q.shape[2]):
            at, upto = (slice(None), slice(None), slice(first, last)), (slice(None), slice(None), slice(0, keys))
            if ctx.whole and not learned and grad_lse is None:
                mask = recipe.mask(first, last)
                dq[at], more_k, more_v = fused_backward(
                    grad[at], q[at], k[upto], v[upto], mask, recipe.scale, out[at], lse[at]
                )
            else:
                more_lse = None if grad_lse is None else grad_lse[at]
                dq[at], more_k, more_v, *rest = _by_autograd(
                    grad[at], more_lse, q[at], k[upto], v[upto], out[at], lse[at], recipe, first, last
                )
                own = [a + b for a, b in zip(own, rest, strict=True)]
            dk[upto] += more_k
            dv[upto] += more_v
        return None, dq, dk, dv, *own


def _by_autograd(
    grad: Tensor,
    grad_lse: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    recipe: Recipe,
    first: int,
    last: int,
) -> list[Tensor]:
    """Gradients of q, k, v and of the learned values of one block, its scores differentiated by autograd."""
    with torch.enable_grad():
        q, k = q.detach().requires_grad_(), k.detach().requires_grad_()
        scores = block_scores(q, k, recipe, first, last)
    dead = (scores.detach().amax(-1) == -math.inf) if scores.shape[-1] else torch.ones_like(lse, dtype=torch.bool)
    lse = lse.to(scores.dtype).masked_fill(dead, -math.inf)
    grad_scores, dv = plain_backward(grad, grad_lse, scores.detach(), v, out, lse)
    wanted = (q, k, *recipe.learned)
    found = torch.autograd.grad(scores, wanted, grad_scores, allow_unused=True)
    dq, dk, *rest = (torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True))
    return [dq, dk, dv, *rest]


def _differentiable(
    grad: Tensor | None, grad_lse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, recipe: Recipe
) -> tuple[Tensor | None, ...]:
    """The gradients as functions that autograd can differentiate again, by plain operators."""
    results = [
        plain_forward(
            block_scores(q[:, :, first:last], k[:, :, :keys], recipe, first, last), v[:, :, :keys]
        )
        for first, last, keys in blocks(recipe, q.shape[2])
    ]
    out, lse = (torch.cat(parts, dim=2) for parts in zip(*results, strict=True))
    given = [(x, g) for x, g in ((out, grad), (lse, grad_lse)) if g is not None]
    wanted = [x for x in (q, k, v, *recipe.learned) if x.requires_grad]
    found = iter(
        torch.autograd.grad(
            [x for x, _ in given], wanted, [g for _, g in given], create_graph=True, allow_unused=True
        )
    )
    return tuple(next(found) if x.requires_grad else None for x in (q, k, v, *recipe.learned))
