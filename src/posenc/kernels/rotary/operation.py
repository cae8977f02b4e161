"""Rotation as one differentiable operation that any engine (implementation of the rotation) can compute.

A rotation is linear in x, and its transpose is the inverse rotation. An engine therefore only needs to rotate: by φ
in the forward pass and by −φ in the backward pass; second derivatives are rotations too. The tables of cos
and sin are constants. Basic torch operators are used instead if tables require gradients, and inside function
transforms and forward-mode derivatives.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from posenc.kernels.memory import is_concrete, is_recorded, is_transformed
from posenc.kernels.rotary.specification import Pairing, rotate

Engine = Callable[[Tensor, Tensor, Tensor, str, Tensor | None], Tensor]
"""``engine(x, cos, sin, pairing, out)`` rotates x by the tables cos and sin, into new memory or into ``out``.
``out`` must be x itself or must not overlap x.
"""


class Rotate(torch.autograd.Function):
    """y = R(φ) x for q and k, with the backward pass g ↦ R(−φ) g. If k is None, only q is rotated.

    With ``inplace``, q is overwritten and marked as modified. Autograd allows only one modified view, which must
    be the first argument.
    """

    @staticmethod
    def forward(
        q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, engine: Engine, pairing: str, inplace: bool
    ) -> tuple[Tensor, ...]:
        rotated = engine(q, cos, sin, pairing, q if inplace else None)
        return (rotated,) if k is None else (rotated, engine(k, cos, sin, pairing, None))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        q, _, cos, sin, ctx.engine, ctx.pairing, inplace = inputs
        ctx.save_for_backward(cos, sin)
        if inplace:
            ctx.mark_dirty(q)

    @staticmethod
    def backward(ctx: Any, q_grad: Tensor, k_grad: Tensor | None = None) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        grads = (q_grad,) if k_grad is None else (q_grad, k_grad)
        rotated = apply(ctx.engine, grads, cos, -sin, ctx.pairing)
        return rotated[0], None if k_grad is None else rotated[1], None, None, None, None, None


def apply(engine: Engine, xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str) -> tuple[Tensor, ...]:
    """Rotate one or two tensors by the same tables into new tensors. Autograd records the operation if gradients
    are enabled.
    """
    if is_transformed():
        return tuple(rotate(x, cos, sin, cast(Pairing, pairing)) for x in xs)
    if is_concrete(*xs) and not is_recorded(*xs):
        return tuple(engine(x, cos, sin, pairing, None) for x in xs)
    q, k = xs if len(xs) == 2 else (xs[0], None)
    return cast(tuple[Tensor, ...], Rotate.apply(q, k, cos, sin, engine, pairing, False))


def apply_in_place(engine: Engine, x: Tensor, out: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    """Rotate x into ``out``, which is x itself or another tensor. Autograd records an in-place change of
    ``out``.
    """
    if out is not x:
        out.copy_(x)
    return cast(Tensor, Rotate.apply(out, None, cos, sin, engine, pairing, True)[0])
