"""Attention without an L×L tensor: the way from one call to whoever computes it.

Whole where torch's own kernels serve, along a line or through extra channels where the bias offers them, else by
blocks of rows. Every way equals softmax(``scores``)·v.
"""

import math
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Literal, overload

import torch
from jaxtyping import Float
from torch import _C, Tensor
from torch.autograd import forward_ad
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as sdpa

from posenc.attend.blocks import ROWS, by_blocks, by_operators, recomputed
from posenc.attend.call import BACKENDS, AttentionCall, Backend, said
from posenc.attend.decay import decayed
from posenc.attend.fit import check, check_types
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument, UnknownName
from posenc.kernels.attention.block import for_every_head, fused
from posenc.kernels.attention.flex import flexible, serves
from posenc.kernels.attention.low_rank import widened
from posenc.mask import Mask, Spans


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    mask: Mask | None = ...,
    *,
    causal: bool = ...,
    window: int | None = ...,
    scale: float | None = ...,
    dropout: float = ...,
    return_logsumexp: Literal[False] = ...,
    backend: Backend = ...,
) -> Tensor: ...


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    mask: Mask | None = ...,
    *,
    causal: bool = ...,
    window: int | None = ...,
    scale: float | None = ...,
    dropout: float = ...,
    return_logsumexp: Literal[True],
    backend: Backend = ...,
) -> tuple[Tensor, Tensor]: ...


def attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    v: Float[Tensor, "B K S V"],
    placed: Placed,
    mask: Mask | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    return_logsumexp: bool = False,
    backend: Backend = "auto",
) -> Float[Tensor, "B H T V"] | tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]:
    """Attention of T queries over S keys, with the encoding's bias and scale.

    Args:
        q: queries, ``(B, heads, length, channels)``.
        k: keys; they may have fewer heads, a divisor of q's (grouped query).
        v: values, with as many heads as the keys.
        placed: ``encoding.at(q_positions, k_positions)``; of ``Layers``, that of this layer, whose window is
            heeded beside the mask's.
        mask: who may see whom. A query that sees no key returns zeros.
        causal, window: the short form of ``Mask(causal=…, window=…)``. A causal query sees itself and what comes
            before it, both sequences ending at the same token; ``window`` keys of those, itself included.
        scale: multiplies the scores before the bias; 1/√D by default, D without channels that rotate added.
        dropout: share of the weights set to zero; the rest grow by 1/(1 − dropout). 0 outside training.
        return_logsumexp: also return ln Σ exp(scores) of every row, ``(B, H, T)`` in float32 or wider, −∞ where a
            row sees no key, by which parts of a sequence attended to one by one are put together (ring attention).
        backend: which way is taken where several are right: ``"toeplitz"``, ``"low_rank"``, or ``"blocks"`` for
            neither. ``"auto"`` takes low rank from 1024 tokens on, and Toeplitz below; the ways differ in the last
            digits.

    Raises:
        InvalidArgument: shapes, devices or head counts that do not fit together.

    Second derivatives exist on the CPU; on other devices torch's kernels have none, and
    ``scores(…).softmax(-1) @ v`` is the way.
    """
    mask = check(q, k, v, placed, Mask.of(mask, causal, window), scale)
    if not 0 <= dropout < 1:
        raise InvalidArgument(
            f"dropout={dropout} must lie in 0 … 1 (excluded), the share of weights that are dropped"
        )
    if dropout and return_logsumexp:
        raise InvalidArgument(
            "dropout cannot be put together by the logsumexp; use dropout=0 with return_logsumexp"
        )
    if backend not in BACKENDS:
        raise UnknownName("backend", backend, BACKENDS)
    scale = 1 / math.sqrt(q.shape[-1] - placed.added) if scale is None else scale
    autocast = q.device.type != "meta" and torch.is_autocast_enabled(q.device.type)
    if autocast:
        # Autocast would round the bias to 16 bits, and so merge far distances: only q, k and v are rounded.
        low = torch.get_autocast_dtype(q.device.type)
        q, k, v = (x if x.dtype == torch.float64 else x.to(low) for x in (q, k, v))
    check_types(q=q, k=k, v=v)
    with torch.autocast(q.device.type, enabled=False) if autocast else nullcontext():
        attend = partial(_once, scale, return_logsumexp, backend, dropout)
        way = attend if placed.decay is None else partial(decayed, attend, scale)
        out, lse = way(q, k, v, placed, mask)
    return out if lse is None else (out, lse)


def _once(
    scale: float,
    return_logsumexp: bool,
    backend: Backend,
    dropout: float,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    mask: Mask,
) -> tuple[Tensor, Tensor | None]:
    """Output, and the logsumexp where it is asked for."""
    call = AttentionCall.of(q, k, placed, mask, scale, return_logsumexp, backend)
    q = q if placed.scale is None else (q * placed.scale).to(q.dtype)
    if dropout and (call.needs_scores or _transformed()):
        raise InvalidArgument(
            f"dropout={dropout} is not offered for a bias that reads scores, nor inside a function transform; use 0"
        )
    # torch's kernels take values as wide as the keys; narrower ones would cost a table of all scores.
    wide = pad(v, (0, q.shape[-1] - v.shape[-1])) if v.shape[-1] < q.shape[-1] else v
    out, lse = _summed(q, k, wide, call) if call.exact_rows else (_attend(q, k, wide, call, dropout), None)
    return out if wide is v else out[..., : v.shape[-1]], lse


def _transformed() -> bool:
    """Whether a transform of functions, or derivatives taken forward, see operators alone."""
    if torch.compiler.is_compiling():
        return False
    return _C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _summed(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Output and logsumexp, which come from blocks of rows."""
    return by_operators(q, k, v, call) if _transformed() else recomputed(q, k, v, call)


def _attend(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall, dropout: float) -> Float[Tensor, "B H T V"]:
    """The way to whoever computes; every branch equals softmax(scores)·v."""
    compiling = torch.compiler.is_compiling()
    if _transformed() or (call.needs_scores and not compiling):
        return _summed(q, k, v, call)[0]
    spans = None if compiling else call.mask.spans(call.queries, call.all_keys, call.bias is not None)
    if spans is not None:
        return _by_spans(q, k, v, call, spans, dropout)
    learning = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *call.trained))
    if call.bias is not None and call.may_widen(q, dropout) and not _along_line(q, call):
        channels = call.bias.low_rank(q.dtype, call.scale)
        if channels is not None:
            wide, bare = widened(q, k, v, channels), replace(call, bias=None, trained=())
            return _attend(*wide, bare, dropout)[..., : v.shape[-1]]
    gqa = said(q.shape[1] != k.shape[1])
    if learning and not dropout and not compiling and (call.trained or fused(q, k, v)):
        return recomputed(q, k, v, call)[0]
    if call.whole:
        causal = said(call.is_causal)
        return sdpa(q, k, v, is_causal=causal, scale=call.scale, dropout_p=dropout, enable_gqa=gqa)
    if compiling:
        mask = call.additive_mask(0, call.queries, _all_scores(q, k, call.scale) if call.needs_scores else None)
        return sdpa(q, k, v, attn_mask=mask, scale=call.scale, dropout_p=dropout, enable_gqa=gqa)
    if not dropout and call.queries > ROWS and call.flexes and serves(q, v):
        hides = call.mask.modifier(call.queries, call.all_keys, call.device)
        return flexible(q, k, v, None if call.bias is None else call.bias.modifier, hides, call.scale)
    return by_blocks(q, k, v, call, dropout)


def _all_scores(q: Tensor, k: Tensor, scale: float) -> Float[Tensor, "B H T S"]:
    """q·kᵀ·scale in one piece, without the views of groups whose lengths an exporter cannot tell."""
    wide = torch.promote_types(q.dtype, torch.float32)
    return q.to(wide) @ for_every_head(k, q.shape[1]).to(wide).mT * scale


LONG = 1024
"""From so many tokens on channels win, one call whose lead grows with the length; shorter calls take the line."""


def _along_line(q: Tensor, call: AttentionCall) -> bool:
    """Whether the line is taken where channels are right too: asked for, or for few tokens."""
    if call.toeplitz is None or call.trained or torch.compiler.is_compiling() or not q.is_cpu:
        return False
    return call.backend == "toeplitz" or (call.backend == "auto" and call.queries < LONG)


def _by_spans(
    q: Tensor, k: Tensor, v: Tensor, call: AttentionCall, spans: Spans, dropout: float
) -> Float[Tensor, "B H T V"]:
    """Documents, or rows without their padding, one after the other: what is hidden is never computed."""
    rows = []
    # Splitting joins gradients in one pass, where slices would each be added to zeros of the whole.
    each = zip(*(x.split(1) if len(spans) > 1 else (x,) for x in (q, k, v)), strict=True)
    for row, (lengths, own) in enumerate(zip(spans, each, strict=True)):
        alone = None if len(spans) == 1 else row
        pieces = zip(*(x.split([n for n, _ in lengths], dim=2) for x in own), strict=True)
        found, first = [], 0
        for (length, sees), (some_q, some_k, some_v) in zip(lengths, pieces, strict=True):
            if sees:
                part = call.part(alone, first, first + length)
                found.append(_attend(some_q, some_k, some_v, part, dropout))
            else:
                found.append(some_q.new_zeros(*some_q.shape[:3], v.shape[-1]))
            first += length
        rows.append(torch.cat(found, dim=2) if len(found) > 1 else found[0])
    return torch.cat(rows) if len(rows) > 1 else rows[0]
