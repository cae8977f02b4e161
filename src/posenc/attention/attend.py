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

from posenc.attention.blocks import ROWS, by_blocks, by_operators, recomputed
from posenc.attention.decay import decayed
from posenc.attention.fit import check, check_types
from posenc.attention.work import IMPLS, Impl, Work, said
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument, UnknownName
from posenc.kernels.attention.block import for_every_head, fused
from posenc.kernels.attention.channels import widened
from posenc.kernels.attention.flex import flexible, serves
from posenc.sight import Sight, Spans


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    sight: Sight | bool = ...,
    *,
    scale: float | None = ...,
    dropout: float = ...,
    return_logsumexp: Literal[False] = ...,
    impl: Impl = ...,
) -> Tensor: ...


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    sight: Sight | bool = ...,
    *,
    scale: float | None = ...,
    dropout: float = ...,
    return_logsumexp: Literal[True],
    impl: Impl = ...,
) -> tuple[Tensor, Tensor]: ...


def attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    v: Float[Tensor, "B K S V"],
    placed: Placed,
    sight: Sight | bool = False,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    return_logsumexp: bool = False,
    impl: Impl = "auto",
) -> Float[Tensor, "B H T V"] | tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]:
    """Attention of T queries over S keys, with the encoding's bias and scale.

    Args:
        q: queries, ``(B, heads, length, channels)``.
        k: keys; they may have fewer heads, a divisor of q's (grouped query).
        v: values, with as many heads as the keys.
        placed: ``encoding.at(q_positions, k_positions)``; of ``Layers``, that of this layer, whose window is
            heeded beside the sight's.
        sight: who may see whom: ``True`` (causal, both sequences ending at the same token), ``False`` (everything),
            or a ``posenc.Sight``. A query that sees no key returns zeros.
        scale: multiplies the scores before the bias; 1/√D by default, D without channels that rotate added.
        dropout: share of the weights set to zero; the rest grow by 1/(1 − dropout). 0 outside training.
        return_logsumexp: also return ln Σ exp(scores) of every row, ``(B, H, T)`` in float32 or wider, −∞ where a
            row sees no key, by which parts of a sequence attended to one by one are put together (ring attention).
        impl: which way is taken where several are right: ``"line"`` or ``"channels"``, ``"blocks"`` for neither.
            ``"auto"`` takes channels from 1024 tokens on, and the line below; the ways differ in the last digits.

    Raises:
        InvalidArgument: shapes, devices or head counts that do not fit together.

    Second derivatives exist on the CPU; on other devices torch's kernels have none, and
    ``scores(…).softmax(-1) @ v`` is the way.
    """
    sight = check(q, k, v, placed, sight, scale)
    if not 0 <= dropout < 1:
        raise InvalidArgument(
            f"dropout={dropout} must lie in 0 … 1 (excluded), the share of weights that are dropped"
        )
    if dropout and return_logsumexp:
        raise InvalidArgument(
            "dropout cannot be put together by the logsumexp; use dropout=0 with return_logsumexp"
        )
    if impl not in IMPLS:
        raise UnknownName("impl", impl, IMPLS)
    scale = 1 / math.sqrt(q.shape[-1] - placed.added) if scale is None else scale
    autocast = q.device.type != "meta" and torch.is_autocast_enabled(q.device.type)
    if autocast:
        # Autocast would round the bias to 16 bits, and so merge far distances: only q, k and v are rounded.
        low = torch.get_autocast_dtype(q.device.type)
        q, k, v = (x if x.dtype == torch.float64 else x.to(low) for x in (q, k, v))
    check_types(q=q, k=k, v=v)
    with torch.autocast(q.device.type, enabled=False) if autocast else nullcontext():
        attend = partial(_once, scale, return_logsumexp, impl, dropout)
        way = attend if placed.decay is None else partial(decayed, attend, scale)
        out, lse = way(q, k, v, placed, sight)
    return out if lse is None else (out, lse)


def _once(
    scale: float,
    return_logsumexp: bool,
    impl: Impl,
    dropout: float,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    sight: Sight,
) -> tuple[Tensor, Tensor | None]:
    """Output, and the logsumexp where it is asked for."""
    work = Work.of(q, k, placed, sight, scale, return_logsumexp, impl)
    q = q if placed.scale is None else (q * placed.scale).to(q.dtype)
    if dropout and (work.needs_scores or _transformed()):
        raise InvalidArgument(
            f"dropout={dropout} is not offered for a bias that reads scores, nor inside a function transform; use 0"
        )
    # torch's kernels take values as wide as the keys; narrower ones would cost a table of all scores.
    wide = pad(v, (0, q.shape[-1] - v.shape[-1])) if v.shape[-1] < q.shape[-1] else v
    out, lse = _summed(q, k, wide, work) if work.exact_rows else (_attend(q, k, wide, work, dropout), None)
    return out if wide is v else out[..., : v.shape[-1]], lse


def _transformed() -> bool:
    """Whether a transform of functions, or derivatives taken forward, see operators alone."""
    if torch.compiler.is_compiling():
        return False
    return _C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _summed(q: Tensor, k: Tensor, v: Tensor, work: Work) -> tuple[Tensor, Tensor]:
    """Output and logsumexp, which come from blocks of rows."""
    return by_operators(q, k, v, work) if _transformed() else recomputed(q, k, v, work)


def _attend(q: Tensor, k: Tensor, v: Tensor, work: Work, dropout: float) -> Float[Tensor, "B H T V"]:
    """The way to whoever computes; every branch equals softmax(scores)·v."""
    compiling = torch.compiler.is_compiling()
    if _transformed() or (work.needs_scores and not compiling):
        return _summed(q, k, v, work)[0]
    spans = None if compiling else work.sight.spans(work.queries, work.all_keys, work.bias is not None)
    if spans is not None:
        return _by_spans(q, k, v, work, spans, dropout)
    learning = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *work.trained))
    if work.bias is not None and work.may_widen(q, dropout) and not _along_line(q, work):
        channels = work.bias.channels(q.dtype, work.scale)
        if channels is not None:
            wide, bare = widened(q, k, v, channels), replace(work, bias=None, trained=())
            return _attend(*wide, bare, dropout)[..., : v.shape[-1]]
    gqa = said(q.shape[1] != k.shape[1])
    if learning and not dropout and not compiling and (work.trained or fused(q, k, v)):
        return recomputed(q, k, v, work)[0]
    if work.whole:
        causal = said(work.is_causal)
        return sdpa(q, k, v, is_causal=causal, scale=work.scale, dropout_p=dropout, enable_gqa=gqa)
    if compiling:
        mask = work.mask(0, work.queries, _all_scores(q, k, work.scale) if work.needs_scores else None)
        return sdpa(q, k, v, attn_mask=mask, scale=work.scale, dropout_p=dropout, enable_gqa=gqa)
    if not dropout and work.queries > ROWS and work.flexes and serves(q, v):
        hides = work.sight.modifier(work.queries, work.all_keys, work.device)
        return flexible(q, k, v, None if work.bias is None else work.bias.modifier, hides, work.scale)
    return by_blocks(q, k, v, work, dropout)


def _all_scores(q: Tensor, k: Tensor, scale: float) -> Float[Tensor, "B H T S"]:
    """q·kᵀ·scale in one piece, without the views of groups whose lengths an exporter cannot tell."""
    wide = torch.promote_types(q.dtype, torch.float32)
    return q.to(wide) @ for_every_head(k, q.shape[1]).to(wide).mT * scale


LONG = 1024
"""From so many tokens on channels win, one call whose lead grows with the length; shorter calls take the line."""


def _along_line(q: Tensor, work: Work) -> bool:
    """Whether the line is taken where channels are right too: asked for, or for few tokens."""
    if work.line is None or work.trained or torch.compiler.is_compiling() or not q.is_cpu:
        return False
    return work.impl == "line" or (work.impl == "auto" and work.queries < LONG)


def _by_spans(
    q: Tensor, k: Tensor, v: Tensor, work: Work, spans: Spans, dropout: float
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
                part = work.part(alone, first, first + length)
                found.append(_attend(some_q, some_k, some_v, part, dropout))
            else:
                found.append(some_q.new_zeros(*some_q.shape[:3], v.shape[-1]))
            first += length
        rows.append(torch.cat(found, dim=2) if len(found) > 1 else found[0])
    return torch.cat(rows) if len(rows) > 1 else rows[0]
