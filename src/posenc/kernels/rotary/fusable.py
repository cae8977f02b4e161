"""Rotation as a formula that a compiler turns into one loop: stride-1 reads and writes, real arithmetic.

    half           both halves are rounded to the output's type before they are joined
    interleaved    two strided reads; or, where the caller knows that x begins at an even place in its memory,
                   a pair of adjacent channels is read as one integer twice as wide, taken apart and put together
                   with shifts, so that no load or store has stride 2

A model that compiles itself traces ``fusable`` and gets it fused with its neighbours.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def fusable(xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str, inplace: bool) -> tuple[Tensor, ...]:
    """Every x turned by the tables; to be traced by a compiler."""
    # Tracing hides where an input begins in its memory, and a graph serves inputs that begin anywhere.
    turned = tuple(formula(x, cos, sin, pairing, words=False) for x in xs)
    return tuple(x.copy_(y) for x, y in zip(xs, turned, strict=True)) if inplace else turned


def formula(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, words: bool) -> Tensor:
    """x turned. ``words`` allows pairs to be read as one integer: it says that x begins at an even place."""
    pairs = cos.shape[-1]
    source, tail = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if pairing == "half":
        a, b = _rotate(source[..., :pairs], source[..., pairs:], cos, sin)
        parts = [a.to(x.dtype), b.to(x.dtype)]
    else:
        parts = [_interleaved(source, cos, sin, words)]
    return torch.cat([*parts, tail], dim=-1) if tail.shape[-1] or len(parts) > 1 else parts[0]


def _rotate(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return a * cos - b * sin, b * cos + a * sin


def _interleaved(x: Tensor, cos: Tensor, sin: Tensor, words: bool) -> Tensor:
    way = WORDS.get((x.dtype, cos.dtype)) if words else None
    if way is None or not _is_whole(x):
        a, b = _rotate(x[..., ::2], x[..., 1::2], cos, sin)
        return torch.stack((a.to(x.dtype), b.to(x.dtype)), dim=-1).flatten(-2)
    word, split, join = way
    return join(*_rotate(*split(x.view(word)), cos, sin)).view(x.dtype)


def _is_whole(x: Tensor) -> bool:
    """Whether adjacent channels of x, which begins at an even place, can be seen as one wider word."""
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
