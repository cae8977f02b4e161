"""Rotation as a formula that a compiler turns into one loop: stride-1 reads and writes, real arithmetic.

    half           both halves are rounded to the output's type before they are joined
    interleaved    a pair of adjacent channels is read as one integer twice as wide, taken apart and put
                   together with shifts, so that no load or store has stride 2

A model that compiles itself traces ``formula`` and gets it fused with its neighbours; ``compiled`` calls
Inductor on its own, once for a pairing and type, with dynamic shapes.
"""

from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType

import torch
from torch import Tensor

from posenc.kernels.rotary_cpu import blocks


def formula(
    xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str, inverse: bool, inplace: bool
) -> tuple[Tensor, ...]:
    """Every x turned by the tables; to be traced by a compiler."""
    sin = -sin if inverse else sin
    turned = tuple(_formula(x, cos, sin, pairing) for x in xs)
    return tuple(x.copy_(y) for x, y in zip(xs, turned, strict=True)) if inplace else turned


def _formula(x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    pairs = cos.shape[-1]
    source, tail = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if pairing == "half":
        a, b = _rotate(source[..., :pairs], source[..., pairs:], cos, sin)
        parts = [a.to(x.dtype), b.to(x.dtype)]
    else:
        parts = [_interleaved(source, cos, sin)]
    return torch.cat([*parts, tail], dim=-1) if tail.shape[-1] or len(parts) > 1 else parts[0]


def _rotate(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return a * cos - b * sin, b * cos + a * sin


def _interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    words = WORDS.get((x.dtype, cos.dtype))
    if words is None or not _is_whole(x):
        a, b = _rotate(x[..., ::2], x[..., 1::2], cos, sin)
        return torch.stack((a.to(x.dtype), b.to(x.dtype)), dim=-1).flatten(-2)
    word, split, join = words
    return join(*_rotate(*split(x.view(word)), cos, sin)).view(x.dtype)


def _is_whole(x: Tensor) -> bool:
    """Whether adjacent channels can be seen as one wider word without a copy.

    Tracing hides where x begins in its memory; rows that lie side by side are taken to begin at an even place.
    """
    *rows, channels = x.stride()
    return channels == 1 and x.shape[-1] > 2 and all(s % 2 == 0 for s in rows)


def _split_float32(word: Tensor) -> tuple[Tensor, Tensor]:
    low, high = word.to(torch.int32), (word >> 32).to(torch.int32)
    return low.view(torch.float32), high.view(torch.float32)


def _join_float32(a: Tensor, b: Tensor) -> Tensor:
    low, high = a.view(torch.int32).to(torch.int64), b.view(torch.int32).to(torch.int64)
    return (low & 0xFFFFFFFF) | (high << 32)


def _split_bfloat16(word: Tensor) -> tuple[Tensor, Tensor]:
    """bfloat16 is the upper half of a float32."""
    return (word << 16).view(torch.float32), (word & -0x10000).view(torch.float32)


def _join_bfloat16(a: Tensor, b: Tensor) -> Tensor:
    return ((_rounded(a) >> 16) & 0xFFFF) | (_rounded(b) & -0x10000)


def _rounded(x: Tensor) -> Tensor:
    """Bits of x with the upper half rounded to nearest even; the lower half is left over.

    A NaN keeps being one: those of bfloat16 inputs have lower bits of zero, and the carry cannot leave them.
    """
    bits = x.view(torch.int32)
    return bits + 0x7FFF + ((bits >> 16) & 1)


Words = tuple[torch.dtype, Callable[[Tensor], tuple[Tensor, Tensor]], Callable[[Tensor, Tensor], Tensor]]
WORDS: dict[tuple[torch.dtype, torch.dtype], Words] = {
    (torch.float32, torch.float32): (torch.int64, _split_float32, _join_float32),
    (torch.bfloat16, torch.float32): (torch.int32, _split_bfloat16, _join_bfloat16),
}
"""For the types of x and of the tables: the word of a pair, and how it comes apart and together."""


BLOCK = 1 << 21
"""Bytes that one call of a compiled loop turns in place: its result waits in cache to be copied back."""


def compiled(
    xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str, inverse: bool, inplace: bool
) -> tuple[Tensor, ...]:
    """``formula`` through Inductor; in place block by block, since a fused loop still needs what it overwrites."""
    sin = -sin if inverse else sin
    turned = []
    for x in xs:
        loop = _loop(pairing, _kind(x, cos))
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
def _loop(pairing: str, kind: Kind) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """One compiled function for a pairing and kind of input, with code of its own.

    Dynamo counts recompilations by code object, and gives up at eight: kinds must not share one.
    """

    def loop(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return _formula(x, cos, sin, pairing)

    own = FunctionType(loop.__code__.replace(), loop.__globals__, loop.__name__, None, loop.__closure__)
    inner = torch.compile(own, dynamic=True, fullgraph=True)

    def call(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        for tensor in (x, cos, sin):  # only the channels never vary; the loop over them is unrolled
            torch._dynamo.mark_static(tensor, -1)
        with torch.no_grad():
            return inner(x, cos, sin)

    return call
