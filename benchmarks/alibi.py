"""ALiBi in attention: 8 heads of 64 channels, against attention without a bias and the ways others add one."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

import posenc
from benchmarks.measure import Outputs, Row, Table
from posenc.encodings.alibi import alibi_bias

OURS = {torch.float32: 2e-5, torch.bfloat16: 0.04}
"""Relative to 1 + |exact|; sums over thousands of keys in float32, and bfloat16 gradients of blocks."""

TARGET = 1.3
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
    """Causal attention under ALiBi, forward or forward and backward; the base has no bias at all."""
    generator = torch.Generator().manual_seed(0)
    sizes = (heads, kv_heads, kv_heads, heads)
    q, k, v, grad = (torch.randn(1, h, length, channels, generator=generator).to(device, dtype) for h in sizes)
    alibi = posenc.ALiBi(heads).to(device)
    at = posenc.positions.plain(length, device=device)
    if backward:
        for x in (q, k, v):
            x.requires_grad_()

    def whole(attend: Callable[[], Tensor]) -> Callable[[], Outputs]:
        def run() -> Outputs:
            with torch.set_grad_enabled(backward):
                y = attend()
            return (y, *torch.autograd.grad(y, (q, k, v), grad)) if backward else (y,)

        return run

    grouped = heads != kv_heads
    rows = [
        Row("no bias, SDPA", whole(lambda: sdpa(q, k, v, is_causal=True, enable_gqa=grouped))),
        Row(
            "posenc",
            whole(lambda: posenc.attention(q, k, v, alibi.at(at), True)),
            OURS[dtype],
            TARGET,
        ),
    ]
    bias = _full_bias(heads, length).to(device, dtype)
    rows.append(
        Row("full (H, L, L) bias, SDPA", whole(lambda: sdpa(q, k, v, attn_mask=bias, enable_gqa=grouped)), 0.05)
    )
    if not grouped:
        everyone = torch.ones(1, length, dtype=torch.bool, device=device)

        def general() -> Tensor:
            return posenc.attention(q, k, v, alibi.at(at[None]), posenc.Sight(causal=True, key_mask=everyone))

        rows.append(Row("posenc, with a key_mask", whole(general), OURS[dtype]))
    if flex:
        rows.append(_flex(q, k, v, alibi, at, whole))
    kind = "forward and backward" if backward else "forward"
    groups = f", {kv_heads} key heads" if grouped else ""
    title = f"ALiBi, {heads} heads{groups}, L={length}, {str(dtype).removeprefix('torch.')}, {kind}"
    note = "Ratios are to causal attention without a bias. The full bias is built beforehand and not counted."
    return Table(title, rows, lambda: _exact(q, k, v, grad, alibi, backward), note=note)


def _full_bias(heads: int, length: int) -> Tensor:
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    return alibi_bias(heads, length).masked_fill_(future, -math.inf)[None]


def _flex(q: Tensor, k: Tensor, v: Tensor, alibi: posenc.ALiBi, at: Tensor, whole: Callable) -> Row:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    from posenc.kernels.attention.flex import alibi_score_mod

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, len(at), len(at), device=at.device)
    attend, score_mod = torch.compile(flex_attention), alibi_score_mod(alibi.slopes, at)
    return Row(
        "FlexAttention, compiled", whole(lambda: attend(q, k, v, score_mod=score_mod, block_mask=mask)), 0.05
    )


def _exact(q: Tensor, k: Tensor, v: Tensor, grad: Tensor, alibi: posenc.ALiBi, backward: bool) -> Outputs:
    """The same in float64, a head at a time: softmax(q·kᵀ/√D − m·|distance|) v and its gradients."""
    groups = q.shape[1] // k.shape[1]
    distance = torch.arange(q.shape[2], dtype=torch.float64, device=q.device)
    distance = distance[None, :] - distance[:, None]
    hidden = distance > 0
    y, dq, dk, dv = (torch.zeros_like(x, dtype=torch.float64) for x in (q, q, k, v))
    for h, slope in enumerate(alibi.slopes.tolist()):
        qh, kh, vh = (x.detach()[0, i].double() for x, i in ((q, h), (k, h // groups), (v, h // groups)))
        scores = qh @ kh.T / math.sqrt(q.shape[-1]) + slope * distance.masked_fill(hidden, -math.inf)
        weights = scores.softmax(-1)
        y[0, h] = weights @ vh
        if backward:
            g = grad[0, h].double()
            dv[0, h // groups] += weights.T @ g
            slope_of = g @ vh.T
            inner = weights * (slope_of - (weights * slope_of).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
            dq[0, h] = inner @ kh
            dk[0, h // groups] += inner.T @ qh
    return (y, dq, dk, dv) if backward else (y,)
