"""One block of query rows against its keys: output, logsumexp and their gradients, from q, k, v and a float mask.

Torch's fused CPU kernel is used if it can be, else a few plain operators in float32 or wider. Both support grouped
queries. A row whose mask is all −∞ gives zeros, and a logsumexp of −∞.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as sdpa

from posenc.errors import InvalidArgument

SHARES_KEYS = torch.__version__ >= "2.13"
"""Whether torch's CPU kernel supports grouped queries in its backward pass too (2.8 crashes there). If not,
attention copies keys to every head while gradients are computed."""

Block = tuple[Float[Tensor, "B H rows V"], Float[Tensor, "B H rows"]]


def plain_forward(scores: Float[Tensor, "B H rows S"], v: Float[Tensor, "B K S V"]) -> Block:
    """softmax(scores)·v and the logsumexp of the scores, in the scores' type, rounded once to v's."""
    lse = logsumexp(scores, -1)
    return grouped(softmax(scores, lse), v.to(scores.dtype)).to(v.dtype), lse


def plain_backward(
    grad: Tensor,
    grad_lse: Tensor | None,
    scores: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
) -> tuple[Float[Tensor, "B H rows S"], Float[Tensor, "B K S V"]]:
    """Gradients of the scores and of v."""
    grad, values = grad.to(scores.dtype), v.to(scores.dtype)
    weights = softmax(scores, lse)
    inner = (grad * out.to(scores.dtype)).sum(-1, keepdim=True)
    if grad_lse is not None:
        inner = inner - grad_lse.to(scores.dtype)[..., None]
    grad_scores = weights * (grouped(grad, values.mT) - inner)
    grad_v = split(weights, v.shape[1]).mT @ split(grad, v.shape[1])
    return grad_scores, grad_v.to(v.dtype)


def merge(
    parts: Sequence[tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]],
    sinks: Float[Tensor, " H"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]:
    """Attention over all keys, from outputs and logsumexps over parts of them (``return_logsumexp=True``).

    Keys may be split in any way, as when they travel around a ring of ranks: y = Σ_i exp(l_i − l)·y_i with
    l = ln Σ_i exp(l_i). Rows that see no key in any part are zero. Pass ``sinks`` once, here: a logit per head,
    which acts like one more key with a zero value and is included in the logsumexp.
    """
    pairs = isinstance(parts, list | tuple) and [
        isinstance(part, list | tuple) and len(part) == 2 for part in parts
    ]
    if not pairs or not all(pairs):
        raise InvalidArgument("parts must be pairs: [attention(…, return_logsumexp=True), …], at least one")
    if sinks is not None:
        out, lse = parts[0]
        sink = sinks.to(lse.dtype)[:, None].expand_as(lse)
        parts = [*parts, (torch.zeros_like(out), sink)]
    lse = logsumexp(torch.stack([part for _, part in parts]), 0)
    shift = finite(lse)
    y = sum(out * (part - shift).exp()[..., None] for out, part in parts)
    assert isinstance(y, Tensor)
    return y.to(parts[0][0].dtype), lse


def with_sum(grad: Tensor, out: Tensor, more: Float[Tensor, "B H T"]) -> tuple[Tensor, Tensor]:
    """Gradient and output with three more channels, which add ``more`` to their product along a row.

    Backward subtracts that product from every row; with −(the gradient of the logsumexp) it then covers both
    outputs, as long as values are zero in these channels. Three 16-bit numbers hold one of float32.
    """
    rest, channels = more[..., None], []
    for _ in range(3):
        channels.append(rest.to(out.dtype))
        rest = rest - channels[-1].to(rest.dtype)
    return pad(grad, (0, 3), value=1.0), torch.cat((out, *channels), dim=-1)


def softmax(scores: Float[Tensor, "B H rows S"], lse: Float[Tensor, "B H rows"]) -> Float[Tensor, "B H rows S"]:
    """exp(scores − lse), divided by their sum; zeros in a row that sees no key.

    The sum is 1 up to the rounding of lse, which grows with lse: far from all keys, ALiBi's lse is in the
    thousands.
    """
    weights = (scores - finite(lse)[..., None]).exp()
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def logsumexp(x: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*less"]:
    """ln Σ exp(x) along an axis; if all x are −∞, it is −∞ and, unlike torch's, has a gradient of 0."""
    dead = (x == -math.inf).all(dim, keepdim=True)
    return x.masked_fill(dead, 0.0).logsumexp(dim).masked_fill(dead.squeeze(dim), -math.inf)


def products(q: Float[Tensor, "B H rows D"], k: Float[Tensor, "B K S D"]) -> Float[Tensor, "B H rows S"]:
    """q·kᵀ of every head with its group's keys, in float32 or wider."""
    compute_dtype = torch.promote_types(q.dtype, torch.float32)
    return grouped(q.to(compute_dtype), k.to(compute_dtype).mT)


def capped(scores: Float[Tensor, "*shape"], softcap: float | None) -> Float[Tensor, "*shape"]:
    """softcap·tanh(scores/softcap); without a softcap the scores."""
    return scores if softcap is None else softcap * (scores / softcap).tanh()


def split(x: Float[Tensor, "B H rows n"], groups: int) -> Float[Tensor, "B K gr n"]:
    """Heads that share keys, stacked as rows of one matrix."""
    B, H, rows, n = x.shape
    return x.reshape(B, groups, H // groups * rows, n)


def grouped(x: Float[Tensor, "B H rows n"], y: Float[Tensor, "B K n m"]) -> Float[Tensor, "B H rows m"]:
    """x @ y, every head of x with the head of y that its group shares."""
    return (split(x, y.shape[1]) @ y).reshape(*x.shape[:3], y.shape[-1])


def repeat_kv(x: Float[Tensor, "B K S n"], heads: int) -> Float[Tensor, "B H S n"]:
    """Keys or values of groups of heads, repeated for each head."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def finite(lse: Tensor) -> Tensor:
    """Zero if a row sees no key, so that its weights are exp(−∞) and not NaN."""
    return lse.masked_fill(lse == -math.inf, 0.0)


def fused(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether torch's CPU kernel can compute these, with or without a mask; it returns the logsumexp too."""
    return (
        not torch.compiler.is_compiling()
        and q.device.type == "cpu"
        and q.dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64)
        and q.shape[-1] == v.shape[-1]
        and min(q.numel(), k.numel()) > 0
        and torch.backends.cuda.flash_sdp_enabled()  # false inside sdpa_kernel(MATH)
    )


def attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    mask: Tensor | None = None,
    is_causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T V"]:
    """One call of torch's attention, with grouped queries.

    If a head has one query, the heads that share keys become rows of one head: keys are read once for all of them,
    by a matrix product, which in bfloat16 takes a tenth of the time of products with vectors.
    """
    heads, groups = q.shape[1], k.shape[1]
    # Branches, since torch accepts no flag that is a symbol of a compiler.
    if heads == groups:
        return sdpa(q, k, v, mask, dropout, is_causal, scale=scale)
    if q.shape[2] != 1:
        return sdpa(q, k, v, mask, dropout, is_causal, scale=scale, enable_gqa=True)
    if mask is not None and mask.shape[1] != 1:
        mask = mask.reshape(mask.shape[0], groups, heads // groups, mask.shape[3])
    y = sdpa(q.reshape(q.shape[0], groups, heads // groups, q.shape[3]), k, v, mask, dropout, scale=scale)
    return y.reshape(q.shape[0], heads, 1, v.shape[3])


def readable(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors with contiguous rows, which torch's CPU kernel assumes."""
    return tuple([x if x.stride(-1) == 1 else x.contiguous() for x in tensors])


def fused_forward(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Block:
    """The block by torch's CPU kernel. A row without keys has logsumexp 0 here, as the kernel's backward
    expects."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale
    )
    return out, lse


def fused_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float, of: Block
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v by torch's CPU kernel, from output and logsumexp of ``fused_forward``."""
    dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, *of, 0.0, is_causal, attn_mask=mask, scale=scale
    )
    return dq, dk, dv


def mask_dtype(q: Tensor) -> torch.dtype:
    """float32 under 16-bit q; float64 under float64, where torch 2.13's CPU kernel misreads a float32 mask."""
    return torch.promote_types(q.dtype, torch.float32)
