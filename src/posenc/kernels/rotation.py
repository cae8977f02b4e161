"""Rotation as one differentiable operation, whose arithmetic is any engine's.

A rotation is linear in x and its transpose is the rotation back, so an engine only ever turns: forward by φ,
backward by −φ, and again for second derivatives. The tables are constants here; where they carry gradients,
the specification serves.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.errors import InvalidArgument

Engine = Callable[[Sequence[Tensor], Tensor, Tensor, str, bool, bool], tuple[Tensor, ...]]
"""``engine(xs, first, second, pairing, inverse, inplace)``: every x turned by the same phases, or back by them,
in place or into fresh memory. ``first`` and ``second`` say the phases: cos and sin tables, or whatever else the
engine computes them from."""


class Rotation(torch.autograd.Function):
    """y = R(φ) x for q and k; backward g ↦ R(−φ) g. With ``k=None`` it turns q alone.

    ``inplace`` overwrites them, and says so to autograd, which expects a view that is changed in place to be
    the first argument and alone.
    """

    @staticmethod
    def forward(
        q: Tensor,
        k: Tensor | None,
        first: Tensor,
        second: Tensor,
        engine: Engine,
        pairing: str,
        inverse: bool,
        inplace: bool,
    ) -> tuple[Tensor, ...]:
        xs = (q,) if k is None else (q, k)
        return engine(xs, first, second, pairing, inverse, inplace)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        q, _, first, second, ctx.engine, ctx.pairing, ctx.inverse, inplace = inputs
        ctx.save_for_backward(first, second)
        if inplace:
            ctx.mark_dirty(q)

    @staticmethod
    def backward(ctx: Any, q_grad: Tensor, k_grad: Tensor | None = None) -> tuple[Tensor | None, ...]:
        first, second = ctx.saved_tensors
        turned = _apply(q_grad, k_grad, first, second, ctx.engine, ctx.pairing, not ctx.inverse, False)
        return turned[0], None if k_grad is None else turned[1], None, None, None, None, None, None


class EagerRotation(Rotation):
    """The same with forward-mode derivatives and vmap, which compilers refuse to trace."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        Rotation.setup_context(ctx, inputs, output)
        ctx.inplace = inputs[-1]
        ctx.save_for_forward(*inputs[2:4])

    @staticmethod
    def jvp(ctx: Any, q: Tensor, k: Tensor | None, *rest: None) -> tuple[Tensor, ...]:
        first, second = ctx.saved_tensors
        return _apply(q, k, first, second, ctx.engine, ctx.pairing, ctx.inverse, ctx.inplace)

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        if dims[2] is not None or dims[3] is not None:
            raise InvalidArgument("positions cannot be mapped by vmap; give every row its own: (B, T)")
        qk = [
            None if x is None else x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(args[:2], dims[:2], strict=True)
        ]
        turned = _apply(*qk, *args[2:])
        return turned, (0,) * len(turned)


def _apply(*args: Any) -> tuple[Tensor, ...]:
    if args[2].requires_grad or args[3].requires_grad:
        raise InvalidArgument("the tables carry gradients, which no engine returns; use impl='torch'")
    return (Rotation if torch.compiler.is_compiling() else EagerRotation).apply(*args)


def turn(
    engine: Engine,
    q: Tensor,
    k: Tensor | None,
    first: Tensor,
    second: Tensor,
    pairing: str,
) -> tuple[Tensor, ...]:
    """q and k turned, differentiably, in fresh memory; q alone for ``k=None``."""
    return _apply(q, k, first, second, engine, pairing, False, False)


def turn_into(engine: Engine, x: Tensor, out: Tensor, first: Tensor, second: Tensor, pairing: str) -> Tensor:
    """x turned into ``out``, which autograd sees as the change it is.

    ``out`` is x itself, to rotate in place, or other memory of its shape and type that does not overlap it (a
    slot of a cache).

    Raises:
        InvalidArgument: an out that does not fit x.
    """
    if out is not x:
        if out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
            raise InvalidArgument(
                f"out is {out.dtype} {tuple(out.shape)} on {out.device} for {x.dtype} {tuple(x.shape)} on "
                f"{x.device}; give memory of the same kind, or the tensor itself to rotate in place"
            )
        out.copy_(x)
    (turned,) = _apply(out, None, first, second, engine, pairing, False, True)
    return turned
