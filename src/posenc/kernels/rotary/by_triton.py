"""Rotation as one Triton kernel for q and k: each element is read once and written once.

A program reads the tables of a few tokens and rotates those tokens in several heads by them. Only code that asks
for ``backend="triton"`` imports this module and triton with it. Tested in Triton's interpreter
(``TRITON_INTERPRET=1``); speed on a GPU is not measured.
"""
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from posenc.errors import BackendUnavailable, InvalidArgument
from posenc.kernels.rotary.fusable import fusable

HEADS = 8
"""Heads that one program rotates: tables without a heads' axis are read once for them."""

TILE = 1024
"""Pairs of one head that a program holds at a time: tokens × pairs."""


@triton.jit
def _rotate_head(x, out, cos, sin, tokens, in_length, x_token, x_channel, out_token, out_channel,
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
def _read(cos_table, sin_table, place, inside, WORK: tl.constexpr):
    """cos and sin of a tile, in the type of the arithmetic."""
    cos = tl.load(cos_table + place, mask=inside, other=0.0).to(WORK)
    return cos, tl.load(sin_table + place, mask=inside, other=0.0).to(WORK)


@triton.jit
def _rotate_kernel(q, q_out, k, k_out, cos_table, sin_table, length, q_heads, k_heads,
                 q_b, q_h, q_t, q_d, qo_b, qo_h, qo_t, qo_d,
                 k_b, k_h, k_t, k_d, ko_b, ko_h, ko_t, ko_d, table_b, table_h,
                 PAIRS: tl.constexpr, WIDE: tl.constexpr, TAIL: tl.constexpr, CHANNELS: tl.constexpr,
                 TOKENS: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr, BY_HEAD: tl.constexpr,
                 WORK: tl.constexpr):  # fmt: skip
    """Grid: blocks of tokens × batch × blocks of heads, those of q and then those of k."""
    # 64 bits from here on: a tensor of 2^31 elements is ordinary at a million tokens.
    batch = tl.program_id(1).to(tl.int64)
    tokens = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)[:, None]
    in_length = tokens < length
    pair = tl.arange(0, WIDE)[None, :]
    inside = in_length & (pair < PAIRS)
    place = batch * table_b + tokens * PAIRS + pair
    head = tl.program_id(2).to(tl.int64) * HEADS
    if not BY_HEAD:
        cos, sin = _read(cos_table, sin_table, place, inside, WORK)
    for _ in range(HEADS):
        if BY_HEAD:
            table_head = head % q_heads
            cos, sin = _read(cos_table, sin_table, place + table_head * table_h, inside, WORK)
        if head < q_heads:
            _rotate_head(q + batch * q_b + head * q_h, q_out + batch * qo_b + head * qo_h, cos, sin, tokens,
                       in_length, q_t, q_d, qo_t, qo_d, PAIRS, WIDE, TAIL, CHANNELS, HALF)  # fmt: skip
        elif head < q_heads + k_heads:
            k_head = head - q_heads
            _rotate_head(k + batch * k_b + k_head * k_h, k_out + batch * ko_b + k_head * ko_h, cos, sin, tokens,
                       in_length, k_t, k_d, ko_t, ko_d, PAIRS, WIDE, TAIL, CHANNELS, HALF)  # fmt: skip
        head += 1


def by_triton(
    xs: Sequence[Tensor], cos: Tensor, sin: Tensor, pairing: str, outs: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    """Every x (one or two, B, T and D in common) rotated by tables ``(T, pairs)`` or ``(B, H or 1, T, pairs)``.

    The arithmetic runs in the tables' type, float32 at least.
    """
    q, k = xs[0], xs[-1]
    if any(x.dim() != 4 for x in xs):
        raise InvalidArgument(f"q has shape {tuple(q.shape)}; backend='triton' takes (B, heads, length, channels)")
    if not (q.is_cuda or _interprets()):
        raise BackendUnavailable(f"backend='triton' runs on cuda and q is on {q.device}; use backend='auto'")
    if any(x.is_neg() for x in (*xs, cos, sin, *(outs or ()))):  # a sign that is in no byte
        return fusable(xs, cos, sin, pairing, outs)
    inplace = outs is not None and all(out is x for x, out in zip(xs, outs, strict=True))
    outs = tuple(torch.empty_like(x) for x in xs) if outs is None else tuple(outs)
    batch, length, channels = q.shape[0], q.shape[2], q.shape[3]
    cos, sin = cos.contiguous(), sin.contiguous()
    rows, heads = (1, 1) if cos.dim() == 2 else cos.shape[:2]
    pairs = cos.shape[-1]
    k_heads = k.shape[1] if len(xs) == 2 else 0
    wide = triton.next_power_of_2(pairs)
    tail = 0 if inplace or channels == 2 * pairs else triton.next_power_of_2(channels - 2 * pairs)
    tokens = min(max(1, TILE // wide), triton.next_power_of_2(max(1, length)))
    grid = (triton.cdiv(length, tokens), batch, triton.cdiv(q.shape[1] + k_heads, HEADS))
    if 0 in grid or q.numel() == 0:
        return outs
    work = tl.float64 if torch.promote_types(cos.dtype, torch.float32) == torch.float64 else tl.float32
    with torch.cuda.device_of(q):
        _rotate_kernel[grid](
            q, outs[0], k, outs[-1], cos, sin, length, q.shape[1], k_heads,
            *q.stride(), *outs[0].stride(), *k.stride(), *outs[-1].stride(),
            heads * length * pairs if rows > 1 else 0, length * pairs,
            PAIRS=pairs, WIDE=wide, TAIL=tail, CHANNELS=channels, TOKENS=tokens, HEADS=HEADS,
            HALF=pairing == "half", BY_HEAD=heads > 1, WORK=work,
        )  # fmt: skip
    return outs


def _interprets() -> bool:
    return type(_rotate_kernel).__name__ == "InterpretedFunction"
