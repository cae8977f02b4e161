"""Rotation as one Triton kernel for q and k: each element is read once and written once.

A program holds the phases of a few tokens and turns those tokens in several heads with them. Phases are read
from tables, or computed in the kernel from integer turns, step by step as ``posenc.clock.cos_sin_float32``.
Only code that asks for ``impl="triton"``, or gets it from ``"auto"``, imports this module and triton with it.
Tested in Triton's interpreter (``TRITON_INTERPRET=1``); speed on a GPU is not measured.
"""
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from collections.abc import Sequence
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from posenc.errors import ImplUnavailable, InvalidArgument
from posenc.kernels.rotation import Engine

HEADS = 8
"""Heads that one program turns: the phases are computed once for them."""

TILE = 1024
"""Pairs of one head that a program holds at a time: tokens × pairs."""


@triton.jit
def _cos_sin(positions, turns, factor):
    """cos and sin, times factor, of uint32 positions (tokens, 1) and 64-bit turns (1, pairs)."""
    high = (turns >> 32).to(tl.uint32)
    low = turns.to(tl.uint32)
    positions, low = tl.broadcast(positions, low)
    phase = positions * high + tl.umulhi(positions, low)
    quadrant = (phase + 0x20000000) >> 30
    rest = (phase - (quadrant << 30)).to(tl.int32, bitcast=True)
    x = rest.to(tl.float32) * 1.4629180792671596e-09
    square = x * x
    polynomial = -0.16666654611 + square * (0.0083321608736 + square * -0.00019515295891)
    sine = x + x * square * polynomial
    polynomial = 0.041666645683 + square * (-0.0013887316255 + square * 0.000024433157117)
    cosine = 1.0 - 0.5 * square + square * square * polynomial
    swap = (quadrant & 1) == 1
    cos = tl.where(swap, sine, cosine)
    sin = tl.where(swap, cosine, sine)
    cos = tl.where(((quadrant + 1) & 2) == 2, -cos, cos)
    sin = tl.where((quadrant & 2) == 2, -sin, sin)
    return cos * factor, sin * factor


@triton.jit
def _turn_head(x, out, cos, sin, tokens, in_length, x_token, x_channel, out_token, out_channel,
               PAIRS: tl.constexpr, WIDE: tl.constexpr, TAIL: tl.constexpr, CHANNELS: tl.constexpr,
               HALF: tl.constexpr):  # fmt: skip
    """One head's tile: x and out point at its first token; WIDE is PAIRS padded to a power of two."""
    if HALF:
        pair = tl.arange(0, WIDE)[None, :]
        inside = in_length & (pair < PAIRS)
        left = x + tokens * x_token + pair * x_channel
        a = tl.load(left, mask=inside, other=0.0).to(cos.dtype)
        b = tl.load(left + PAIRS * x_channel, mask=inside, other=0.0).to(cos.dtype)
        left = out + tokens * out_token + pair * out_channel
        tl.store(left, a * cos - b * sin, mask=inside)
        tl.store(left + PAIRS * out_channel, b * cos + a * sin, mask=inside)
    else:
        channel = tl.arange(0, 2 * WIDE)[None, :]
        inside = in_length & (channel < 2 * PAIRS)
        both = tl.load(x + tokens * x_token + channel * x_channel, mask=inside, other=0.0).to(cos.dtype)
        a, b = tl.split(tl.reshape(both, (both.shape[0], WIDE, 2)))
        both = tl.reshape(tl.join(a * cos - b * sin, b * cos + a * sin), (both.shape[0], 2 * WIDE))
        tl.store(out + tokens * out_token + channel * out_channel, both, mask=inside)
    if TAIL:
        channel = 2 * PAIRS + tl.arange(0, TAIL)[None, :]
        inside = in_length & (channel < CHANNELS)
        tail = tl.load(x + tokens * x_token + channel * x_channel, mask=inside)
        tl.store(out + tokens * out_token + channel * out_channel, tail, mask=inside)


@triton.jit
def _turn_kernel(q, q_out, k, k_out, first, second, length, q_heads, k_heads, sign, factor,
                 q_b, q_h, q_t, q_d, qo_b, qo_h, qo_t, qo_d,
                 k_b, k_h, k_t, k_d, ko_b, ko_h, ko_t, ko_d, phase_b, phase_t,
                 PAIRS: tl.constexpr, WIDE: tl.constexpr, TAIL: tl.constexpr, CHANNELS: tl.constexpr,
                 TOKENS: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr, TURNS: tl.constexpr,
                 WORK: tl.constexpr):  # fmt: skip
    """Grid: blocks of tokens × batch × blocks of heads, those of q and then those of k."""
    # 64 bits from here on: a tensor of 2^31 elements is ordinary at a million tokens.
    batch = tl.program_id(1).to(tl.int64)
    tokens = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)[:, None]
    in_length = tokens < length
    pair = tl.arange(0, WIDE)[None, :]
    phases = first + batch * phase_b + tokens * phase_t
    if TURNS:
        positions = tl.load(phases, mask=in_length, other=0).to(tl.uint32)
        turns = tl.load(second + pair, mask=pair < PAIRS, other=0)
        cos, sin = _cos_sin(positions, turns, factor)
    else:
        inside = in_length & (pair < PAIRS)
        cos = tl.load(phases + pair, mask=inside, other=0.0).to(WORK)
        sin = tl.load(second + batch * phase_b + tokens * phase_t + pair, mask=inside, other=0.0).to(WORK)
    sin = sin * sign
    head = tl.program_id(2).to(tl.int64) * HEADS
    for _ in range(HEADS):
        if head < q_heads:
            _turn_head(q + batch * q_b + head * q_h, q_out + batch * qo_b + head * qo_h, cos, sin, tokens,
                       in_length, q_t, q_d, qo_t, qo_d, PAIRS, WIDE, TAIL, CHANNELS, HALF)  # fmt: skip
        elif head < q_heads + k_heads:
            own = head - q_heads
            _turn_head(k + batch * k_b + own * k_h, k_out + batch * ko_b + own * ko_h, cos, sin, tokens,
                       in_length, k_t, k_d, ko_t, ko_d, PAIRS, WIDE, TAIL, CHANNELS, HALF)  # fmt: skip
        head += 1


def from_tables(
    xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str, inverse: bool, inplace: bool
) -> tuple[Tensor, ...]:
    """Every x (one or two, B and T in common) turned by tables ``(T, pairs)`` or ``(B, 1, T, pairs)``.

    The arithmetic runs in the tables' type, float32 at least.
    """
    work = torch.promote_types(cos.dtype, torch.float32)
    rows = cos if cos.dim() == 2 else cos[:, 0]
    return _launch(
        xs,
        cos.contiguous(),
        sin.contiguous(),
        rows.shape[0] if rows.dim() == 3 else 1,
        cos.shape[-1],
        pairing,
        inverse,
        inplace,
        turns=False,
        factor=1.0,
        work=tl.float64 if work == torch.float64 else tl.float32,
    )


@lru_cache
def from_turns(factor: float) -> Engine:
    """The engine whose phases are positions, ``(T,)`` or ``(B, T)``, and the clock's 64-bit turns.

    cos and sin, exact to 2e-7 at any position below 2^31, are multiplied by ``factor``.
    """

    def engine(
        xs: Sequence[Tensor], positions: Tensor, turns: Tensor, pairing: str, inverse: bool, inplace: bool
    ) -> tuple[Tensor, ...]:
        return _launch(
            xs,
            positions.contiguous(),
            turns,
            positions.shape[0] if positions.dim() == 2 else 1,
            turns.shape[0],
            pairing,
            inverse,
            inplace,
            turns=True,
            factor=factor,
            work=tl.float32,
        )

    return engine


def _launch(
    xs: Sequence[Tensor],
    first: Tensor,
    second: Tensor,
    phase_rows: int,
    pairs: int,
    pairing: str,
    inverse: bool,
    inplace: bool,
    *,
    turns: bool,
    factor: float,
    work: tl.dtype,
) -> tuple[Tensor, ...]:
    q, k = xs[0], xs[-1]
    if any(x.dim() != 4 for x in xs):
        raise InvalidArgument(f"q has shape {tuple(q.shape)}; impl='triton' takes (B, heads, length, channels)")
    if q.shape[0] != k.shape[0] or q.shape[2:] != k.shape[2:]:
        raise InvalidArgument(f"q {tuple(q.shape)} and k {tuple(k.shape)} may differ in their heads only")
    if not (q.is_cuda or _interprets()):
        raise ImplUnavailable(f"impl='triton' runs on cuda and q is on {q.device}; use impl='auto'")
    outs = tuple(x if inplace else torch.empty_like(x) for x in xs)
    batch, length, channels = q.shape[0], q.shape[2], q.shape[3]
    k_heads = k.shape[1] if len(xs) == 2 else 0
    wide = triton.next_power_of_2(pairs)
    tail = 0 if inplace or channels == 2 * pairs else triton.next_power_of_2(channels - 2 * pairs)
    tokens = min(max(1, TILE // wide), triton.next_power_of_2(max(1, length)))
    per_token = 1 if turns else pairs
    grid = (triton.cdiv(length, tokens), batch, triton.cdiv(q.shape[1] + k_heads, HEADS))
    if 0 in grid or q.numel() == 0:
        return outs
    with torch.cuda.device_of(q):
        _turn_kernel[grid](
            q, outs[0], k, outs[-1], first, second, length, q.shape[1], k_heads,
            -1.0 if inverse else 1.0, factor,
            *q.stride(), *outs[0].stride(), *k.stride(), *outs[-1].stride(),
            length * per_token if phase_rows > 1 else 0, per_token,
            PAIRS=pairs, WIDE=wide, TAIL=tail, CHANNELS=channels, TOKENS=tokens, HEADS=HEADS,
            HALF=pairing == "half", TURNS=turns, WORK=work,
        )  # fmt: skip
    return outs


def _interprets() -> bool:
    return type(_turn_kernel).__name__ == "InterpretedFunction"
