"""Attention of one block of query rows. Output, logsumexp and gradients are computed from q, k, v and a float
mask.

A block uses torch's fused CPU kernel if possible, or else a few basic operators in float32 or wider. Both
methods support grouped queries. A row whose mask is −∞ for all keys has output zero and logsumexp −∞.
"""

import math
from collections.abc import Sequence
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from posenc.errors import InvalidArgument

SHARES_KEYS = torch.__version__ >= "2.13"
"""Whether torch's CPU kernel supports grouped queries. If not, keys are repeated for every head; torch 2.8 would
return NaN or crash.
"""

Block = tuple[Float[Tensor, "B H rows V"], Float[Tensor, "B H rows"]]


def plain_forward(scores: Float[Tensor, "B H rows S"], v: Float[Tensor, "B K S V"]) -> Block:
    """Return softmax(scores)·v and the logsumexp, computed in the dtype of the scores. The output is rounded
    once to the dtype of v.
    """
    lse = logsumexp(scores, -1)
    weights, total = exponentials(scores, lse)
    weights = weights / total  # under the same name, so that the undivided weights are freed
    return grouped(weights, v.to(scores.dtype)).to(v.dtype), lse


def plain_backward(
    grad: Tensor,
    grad_lse: Tensor | None,
    scores: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    partial: bool = False,
) -> tuple[Float[Tensor, "B H rows S"], Float[Tensor, "B K S V"]]:
    """Return the gradients of the scores and of v. The weights are not divided by their sums; instead, the rows of
    ``grad`` are, which are shorter. If the scores are only ``partial``, with keys missing, nothing is divided.
    """
    weights, total = exponentials(scores, lse)
    total = torch.ones_like(total) if partial else total
    grad, values = grad.to(scores.dtype) / total, v.to(scores.dtype)
    inner = (grad * out.to(scores.dtype)).sum(-1, keepdim=True)
    if grad_lse is not None:
        inner = inner - grad_lse.to(scores.dtype)[..., None] / total
    grad_v = split(weights, v.shape[1]).mT @ split(grad, v.shape[1])
    return grouped(grad, values.mT).sub_(inner).mul_(weights), grad_v.to(v.dtype)


def merge(
    parts: Sequence[tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]],
    sinks: Float[Tensor, " H"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]:
    """Combine attention over parts of the keys, computed with ``return_logsumexp=True``, into attention over all
    keys.

    The result is y = Σ_i exp(l_i − l)·y_i with l = ln Σ_i exp(l_i). Keys may be divided in any way, for example
    over a ring of ranks. The output of a query that sees no key in any part is zero. Pass ``sinks`` only to
    ``merge``, not to the attention over parts. A sink is a logit per head, which acts like one more key with a
    zero value and is included in the logsumexp.
    """
    pairs = isinstance(parts, (list, tuple)) and [  # torch 2.8 compiles no union of types
        isinstance(part, (list, tuple)) and len(part) == 2 for part in parts
    ]
    if not pairs or not all(pairs):
        raise InvalidArgument("parts must be a list of one or more pairs: [attention(…, return_logsumexp=True), …]")
    if sinks is not None:
        out, lse = parts[0]
        parts = [*parts, (torch.zeros_like(out), sinks.to(lse.dtype)[:, None].expand_as(lse))]
    lse = logsumexp(torch.stack([part for _, part in parts]), 0)
    shift = finite(lse)
    y = reduce(torch.add, (out * (part - shift).exp()[..., None] for out, part in parts))
    return y.to(parts[0][0].dtype), lse


def with_sum(grad: Tensor, out: Tensor, more: Float[Tensor, "B H T"]) -> tuple[Tensor, Tensor]:
    """Append three channels to the gradient and the output, so that the dot product of their rows increases by
    ``more``.

    In its backward pass, the kernel subtracts this dot product from the gradients of the row's weights. If ``more``
    is the negated incoming gradient of the logsumexp, and q, k and v are padded with three channels of zeros, the
    kernel's gradients of q and k include the part that flows through the logsumexp. Three channels are needed
    because three 16-bit numbers represent one float32 number.
    """
    channels = torch.cat(pieces(more[..., None], out.dtype, 3), dim=-1)
    return pad(grad, (0, 3), value=1.0), torch.cat((out, channels.to(out.dtype)), dim=-1)


def pieces(x: Tensor, dtype: torch.dtype, count: int) -> list[Tensor]:
    """Split x into ``count`` numbers in ``dtype`` whose sum is x, in descending order of size. Gradients flow
    through the largest number.
    """
    parts = []
    for _ in range(count):
        parts.append(x.to(dtype).to(x.dtype))
        x = x - parts[-1]
    return parts


def exponentials(scores: Float[Tensor, "B H rows S"], lse: Float[Tensor, "B H rows"]) -> tuple[Tensor, Tensor]:
    """Return exp(scores − lse), and its sum along the row, or 1 for a row that sees no key.

    Without rounding, this sum would be 1. The rounding error of lse can be large, because with ALiBi, the magnitude
    of lse is in the thousands for a query far from all keys.
    """
    weights = (scores - finite(lse)[..., None]).exp_()
    total = weights.sum(-1, keepdim=True)
    return weights, total.masked_fill(total == 0, 1.0)


def logsumexp(x: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*less"]:
    """Return ln Σ exp(x) along an axis. If all x are −∞, the result is −∞ and its gradient is 0, unlike in
    torch.
    """
    dead = (x == -math.inf).all(dim, keepdim=True)
    return x.masked_fill(dead, 0.0).logsumexp(dim).masked_fill(dead.squeeze(dim), -math.inf)


def products(q: Float[Tensor, "B H rows D"], k: Float[Tensor, "B K S D"]) -> Float[Tensor, "B H rows S"]:
    """Return q·kᵀ for every head and the keys of the head's group, in float32 or wider."""
    compute_dtype = torch.promote_types(q.dtype, torch.float32)
    return grouped(q.to(compute_dtype), k.to(compute_dtype).mT)


def capped(scores: Float[Tensor, "*shape"], softcap: float | None) -> Float[Tensor, "*shape"]:
    """Return softcap·tanh(scores/softcap), or the scores themselves if ``softcap`` is None."""
    return scores if softcap is None else softcap * (scores / softcap).tanh()


def split(x: Float[Tensor, "B H rows n"], groups: int) -> Float[Tensor, "B K gr n"]:
    """Reshape the heads that share keys into the rows of one matrix."""
    B, H, rows, n = x.shape
    return x.reshape(B, groups, H // groups * rows, n)


def grouped(x: Float[Tensor, "B H rows n"], y: Float[Tensor, "B K n m"]) -> Float[Tensor, "B H rows m"]:
    """Return x @ y. Every head of x is multiplied by the head of y that its group shares."""
    if torch.compiler.is_exporting():  # an exporter cannot determine the sizes of split heads
        return x @ repeat_kv(y, x.shape[1])
    return (split(x, y.shape[1]) @ y).reshape(*x.shape[:3], y.shape[-1])


def repeat_kv(x: Float[Tensor, "B K S n"], heads: int) -> Float[Tensor, "B H S n"]:
    """Repeat the keys or values of each group for every head of the group."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def finite(lse: Tensor) -> Tensor:
    """Replace −∞ by zero. A row that sees no key has scores and lse of −∞, so exp(scores − lse) would be NaN; with
    lse = 0, its weights are exp(−∞) = 0.
    """
    return lse.masked_fill(lse == -math.inf, 0.0)


def fused(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Return whether to use torch's CPU kernel, which also returns the logsumexp, for these inputs.

    The result is False inside ``torch.jit.trace``, because a trace cannot save the Python autograd function that
    computes the kernel's gradients.
    """
    return (
        not torch.compiler.is_compiling()
        and not torch._C._is_tracing()
        and q.device.type == "cpu"
        and q.dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64)
        and q.shape[-1] == v.shape[-1]
        and min(q.numel(), k.numel()) > 0
        and torch.backends.cuda.flash_sdp_enabled()  # false inside sdpa_kernel(MATH)
    )


def fused_forward(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Block:
    """Compute the block with torch's CPU kernel. For a row that sees no key, this kernel returns a logsumexp of 0
    instead of −∞, and its backward pass expects this 0.
    """
    k, v = (k, v) if SHARES_KEYS else (repeat_kv(x, q.shape[1]) for x in (k, v))
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale
    )


def fused_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float, of: Block
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of q, k and v with torch's CPU kernel, from the output and logsumexp of
    ``fused_forward``.
    """
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, *of, 0.0, is_causal, attn_mask=mask, scale=scale
    )
