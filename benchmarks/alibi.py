"""ALiBi in attention, with and without padding and packing, compared with no bias and other implementations."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

import posenc
from benchmarks.measure import Outputs, Row, Table
from posenc.attend.attend import Backend
from posenc.encodings.alibi import alibi_bias

OURS = {torch.float32: 2e-5, torch.bfloat16: 0.04}
"""Tolerances relative to 1 + |exact|, for float32 sums over thousands of keys and blockwise bfloat16 gradients."""

TARGET, PADDED_TARGET, PACKED_TARGET = 1.2, 1.25, 0.6
MEMORY_TARGET = 2 << 20


def table(
    length: int,
    dtype: torch.dtype,
    backward: bool,
    heads: int = 8,
    kv_heads: int = 8,
    channels: int = 64,
    device: str = "cpu",
    flex: bool = False,
) -> Table:
    """Causal attention with ALiBi, forward or forward and backward; the base has no bias."""
    q, k, v, grad = inputs(length, dtype, backward, (heads, kv_heads, channels), device)
    alibi = posenc.ALiBi(heads).to(device)
    at = posenc.positions.arange(length, device=device)
    whole = runs(q, k, v, grad, backward)
    grouped = heads != kv_heads

    def ours(backend: Backend = "auto") -> Callable[[], Outputs]:
        return whole(lambda: posenc.attention(q, k, v, alibi.at(at), causal=True, backend=backend))

    rows = [
        Row("no bias, SDPA", whole(lambda: sdpa(q, k, v, is_causal=True, enable_gqa=grouped))),
        Row("posenc", ours(), OURS[dtype], TARGET),
    ]
    if device == "cpu":
        rows.append(Row("posenc, toeplitz", ours("toeplitz"), OURS[dtype]))
        rows.append(Row("posenc, low rank", ours("low_rank"), OURS[dtype]))
    bias = _full_bias(heads, length).to(device, dtype)
    rows.append(
        Row("full (H, L, L) bias, SDPA", whole(lambda: sdpa(q, k, v, attn_mask=bias, enable_gqa=grouped)), 0.05)
    )
    if flex:
        rows.append(_flex(q, k, v, alibi, at, whole))
    groups = f", {kv_heads} key heads" if grouped else ""
    title = f"ALiBi, {heads} heads{groups}, L={length}, {said(dtype, backward)}"
    taken = posenc.explain(q, k, v, alibi.at(at), causal=True).backend
    note = (
        "Ratios are relative to causal attention without a bias. The full bias is built in advance and not timed. "
        f"posenc uses {taken}."
    )
    seen = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    return Table(title, rows, lambda: _exact(q, k, v, grad, alibi, seen, backward), note=note)


def hiding(
    length: int,
    dtype: torch.dtype,
    backward: bool,
    how: Literal["left-padded", "packed into four"],
    heads: int = 8,
    channels: int = 64,
    device: str = "cpu",
) -> Table:
    """Causal attention with ALiBi over a row with padding (a sixteenth), or over four packed documents."""
    q, k, v, grad = inputs(length, dtype, backward, (heads, heads, channels), device)
    alibi, nope, whole = posenc.ALiBi(heads).to(device), posenc.NoPE(), runs(q, k, v, grad, backward)
    row = torch.arange(length, device=device)
    if how == "left-padded":
        start = length // 16
        at, seen, target = (row - start).clamp(min=0), (row >= start).expand(length, -1), PADDED_TARGET
        mask = posenc.Mask(causal=True, key_mask=seen[:1], left_padding=(start,))
    else:
        lengths = [length // 4] * 4
        at, segments = posenc.positions.packed(lengths, device=device)
        seen, target = segments[:, None] == segments, PACKED_TARGET
        mask = posenc.Mask(causal=True, q_segments=segments, document_lengths=(tuple(lengths),))
    seen = seen.tril()
    bias = _full_bias(heads, length).to(device, dtype).masked_fill(~seen, -math.inf)

    def ours() -> Tensor:
        return posenc.attention(q, k, v, alibi.at(at), mask)

    rows = [
        Row("no bias and nothing hidden, SDPA", whole(lambda: sdpa(q, k, v, is_causal=True))),
        Row("posenc", whole(ours), OURS[dtype], target),
        Row("posenc, without a bias", whole(lambda: posenc.attention(q, k, v, nope.at(at), mask)), None, target),
        Row("full (H, L, L) bias and mask, SDPA", whole(lambda: sdpa(q, k, v, attn_mask=bias)), None),
    ]
    title = f"ALiBi, {how}, {heads} heads, L={length}, {said(dtype, backward)}"
    note = "Ratios are relative to causal attention over the whole row. The full mask is built before the timing."
    return Table(title, rows, lambda: _exact(q, k, v, grad, alibi, seen, backward), note=note)


def said(dtype: torch.dtype, backward: bool) -> str:
    return f"{str(dtype).removeprefix('torch.')}, {'forward and backward' if backward else 'forward'}"


def inputs(
    length: int, dtype: torch.dtype, backward: bool, sizes: tuple[int, int, int], device: str
) -> tuple[Tensor, ...]:
    """Return q, k, v and a gradient for the output."""
    generator = torch.Generator().manual_seed(0)
    heads, kv_heads, channels = sizes
    shapes = [(1, h, length, channels) for h in (heads, kv_heads, kv_heads, heads)]
    q, k, v, grad = (torch.randn(shape, generator=generator).to(device, dtype) for shape in shapes)
    return *(x.requires_grad_(backward) for x in (q, k, v)), grad


def runs(
    q: Tensor, k: Tensor, v: Tensor, grad: Tensor, backward: bool
) -> Callable[[Callable[[], Tensor]], Callable[[], Outputs]]:
    """Return a wrapper for calls of attention; if ``backward``, the wrapped call also computes gradients."""

    def whole(attend: Callable[[], Tensor]) -> Callable[[], Outputs]:
        def run() -> Outputs:
            with torch.set_grad_enabled(backward):
                y = attend()
            return (y, *torch.autograd.grad(y, (q, k, v), grad)) if backward else (y,)

        return run

    return whole


def _full_bias(heads: int, length: int) -> Tensor:
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    return alibi_bias(heads, length).masked_fill_(future, -math.inf)[None]


def _flex(q: Tensor, k: Tensor, v: Tensor, alibi: posenc.ALiBi, at: Tensor, whole: Callable) -> Row:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    from posenc.kernels.attention.flex import alibi_score_mod

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, len(at), len(at), device=at.device)
    attend, score_mod = torch.compile(flex_attention), alibi_score_mod(alibi.slopes, at, at)
    return Row(
        "FlexAttention, compiled", whole(lambda: attend(q, k, v, score_mod=score_mod, block_mask=mask)), 0.05
    )


def _exact(
    q: Tensor, k: Tensor, v: Tensor, grad: Tensor, alibi: posenc.ALiBi, seen: Tensor, backward: bool
) -> Outputs:
    """Compute softmax(q·kᵀ/√D − m·|distance|) v and its gradients in float64, one head at a time."""
    groups = q.shape[1] // k.shape[1]
    distance = torch.arange(q.shape[2], dtype=torch.float64, device=q.device)
    distance = (distance[None, :] - distance[:, None]).masked_fill(~seen, -math.inf)
    y, dq, dk, dv = (torch.zeros_like(x, dtype=torch.float64) for x in (q, q, k, v))
    for h, slope in enumerate(alibi.slopes.tolist()):
        qh, kh, vh = (x.detach()[0, i].double() for x, i in ((q, h), (k, h // groups), (v, h // groups)))
        scores = qh @ kh.T / math.sqrt(q.shape[-1]) + slope * distance
        weights = scores.softmax(-1).nan_to_num(0.0)
        y[0, h] = weights @ vh
        if backward:
            g = grad[0, h].double()
            dv[0, h // groups] += weights.T @ g
            slope_of = g @ vh.T
            inner = weights * (slope_of - (weights * slope_of).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
            dq[0, h] = inner @ kh
            dk[0, h // groups] += inner.T @ qh
    return (y, dq, dk, dv) if backward else (y,)
