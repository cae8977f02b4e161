"""Rotation by a loop that Inductor writes: the fusable formula, compiled once for a pairing and kind of input."""

from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType

import torch
from torch import Tensor

from posenc.kernels.rotary.blocks import blocks
from posenc.kernels.rotary.fusable import formula

BLOCK = 1 << 21
"""Bytes that one call of a compiled loop turns in place: its result waits in cache to be copied back."""


def compiled(xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str, inplace: bool) -> tuple[Tensor, ...]:
    """Every x turned by the tables; in place block by block, since a fused loop still needs what it overwrites."""
    turned = []
    for x in xs:
        even = x.storage_offset() % 2 == 0
        loop = _loop(pairing, even, _kind(x, cos))
        if not inplace:
            turned.append(loop(x.detach(), cos, sin))
            continue
        source = x[..., : 2 * cos.shape[-1]]
        for at in blocks(source, BLOCK // x.element_size()):
            block = source[..., at, :]
            block.copy_(loop(block.detach(), cos[..., at, :], sin[..., at, :]))
        turned.append(x)
    return tuple(turned)


Kind = tuple[object, ...]


def _kind(x: Tensor, cos: Tensor) -> Kind:
    """All that a compiled loop is specialised on: types, channels, axes of one, order of strides."""
    order = tuple(sorted(range(x.dim()), key=x.stride().__getitem__))
    ones = tuple(n == 1 for n in (*x.shape, *cos.shape))
    return (
        x.dtype,
        cos.dtype,
        x.shape[-1],
        cos.shape[-1],
        cos.dim(),
        ones,
        order,
        x.is_contiguous(),
        x.is_inference(),
    )


@cache
def _loop(pairing: str, even: bool, kind: Kind) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """One compiled function for a pairing, a place to begin and a kind of input, with code of its own.

    Dynamo counts recompilations by code object, and gives up at eight: kinds must not share one.
    """

    def loop(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return formula(x, cos, sin, pairing, words=even)

    own = FunctionType(loop.__code__.replace(), loop.__globals__, loop.__name__, None, loop.__closure__)
    inner = torch.compile(own, dynamic=True, fullgraph=True)

    def call(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        for tensor in (x, cos, sin):  # only the channels never vary; the loop over them is unrolled
            torch._dynamo.mark_static(tensor, -1)
        with torch.no_grad():
            return inner(x, cos, sin)

    return call
