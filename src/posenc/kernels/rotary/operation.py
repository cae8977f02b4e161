"""Rotation as one differentiable operation, whose arithmetic is any engine's.

A rotation is linear in x and its transpose is the rotation back, so an engine only ever rotates: forward by φ,
backward by −φ, and again for second derivatives. The tables are constants here; where they carry gradients,
the specification serves.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.kernels.memory import is_recorded, may_be_looked_at

Engine = Callable[[Sequence[Tensor], Tensor, Tensor, str, Sequence[Tensor] | None], tuple[Tensor, ...]]
"""``engine(xs, cos, sin, pairing, outs)``: every x rotated by the same tables, into ``outs``, each of which is its
own x or memory apart from all of them, or into fresh memory."""


class Rotation(torch.autograd.Function):
    """y = R(φ) x for q and k; backward g ↦ R(−φ) g. With ``k=None`` it rotates q alone.

    ``inplace`` overwrites q, and says so to autograd, which expects a view that is changed in place to be the
    first argument and alone.
    """

    @staticmethod
    def forward(
        q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, engine: Engine, pairing: str, inplace: bool
    ) -> tuple[Tensor, ...]:
        return engine((q,) if k is None else (q, k), cos, sin, pairing, (q,) if inplace else None)

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


class EagerRotation(Rotation):
    """The same with forward-mode derivatives and vmap, which compilers refuse to trace."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        Rotation.setup_context(ctx, inputs, output)
        ctx.inplace = inputs[-1]
        ctx.save_for_forward(*inputs[2:4])

    @staticmethod
    def jvp(ctx: Any, q: Tensor, k: Tensor | None, *rest: None) -> tuple[Tensor, ...]:
        cos, sin = ctx.saved_tensors
        rotated: tuple[Tensor, ...] = EagerRotation.apply(q, k, cos, sin, ctx.engine, ctx.pairing, ctx.inplace)
        return rotated

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        q, k = (
            None if x is None else x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(args[:2], dims[:2], strict=True)
        )
        axes = args[0].dim() + (dims[0] is None)
        # The new axis leads: mapped tables get axes of one behind it, to line up with the batch and heads of q.
        cos, sin = (
            table if dim is None else _led(table.movedim(dim, 0), axes)
            for table, dim in zip(args[2:4], dims[2:4], strict=True)
        )
        rotated = EagerRotation.apply(q, k, cos, sin, *args[4:])
        return rotated, (0,) * len(rotated)


def _led(table: Tensor, axes: int) -> Tensor:
    """The table with so many axes, the new ones of size one behind its first."""
    return table.reshape(len(table), *(1,) * (axes - table.dim()), *table.shape[1:])


def _function() -> type[Rotation]:
    return Rotation if torch.compiler.is_compiling() else EagerRotation


def apply(engine: Engine, xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str) -> tuple[Tensor, ...]:
    """One x or two rotated by the same tables, in fresh memory; recorded where somebody records."""
    if may_be_looked_at(*xs) and not is_recorded(*xs):
        return engine(xs, cos, sin, pairing, None)
    q, k = xs if len(xs) == 2 else (xs[0], None)
    rotated: tuple[Tensor, ...] = _function().apply(q, k, cos, sin, engine, pairing, False)
    return rotated


def apply_in_place(engine: Engine, x: Tensor, out: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    """x rotated into ``out``, x itself or memory apart from it, which autograd sees as the change it is."""
    if out is not x:
        out.copy_(x)
    (rotated,) = _function().apply(out, None, cos, sin, engine, pairing, True)
    rotated_out: Tensor = rotated
    return rotated_out
