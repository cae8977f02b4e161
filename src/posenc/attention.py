"""Scaled dot-product attention that any encoding plugs into: the eager specification, and the way to whoever computes.

    y = softmax(scores) v,   scores = q·kᵀ · scale · placed.scale + placed.bias, −∞ where ``sight`` hides

The encoding enters through ``placed.bias`` and ``placed.scale``; rotate q and k first, with ``placed.rotate``.
``scores`` is that formula, dense. ``attention`` is the same without an L×L tensor: whole where torch's own kernels
serve, along a line or through extra channels where the bias offers them, else by blocks of rows.
"""

import math
from dataclasses import dataclass
from typing import Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as sdpa

from posenc.encodings.bias import Bias
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.fit import check
from posenc.kernels.attention.block import products
from posenc.kernels.attention.line import along_line, mask_dtype, row_blocks
from posenc.kernels.attention.recomputed import recomputed
from posenc.sight import Sight


def scores(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    placed: Placed,
    sight: Sight | bool = False,
    *,
    scale: float | None = None,
) -> Float[Tensor, "B H T S"]:
    """What softmax is taken of, dense, in float32 or wider: the specification that every fast path equals.

    Arguments and errors are those of ``attention``. A bias may leave out a number that a whole row shares: see ``Bias.left_out``.
    """
    sight = Sight.of(sight)
    check(q, k, None, placed, sight, scale)
    T, S = q.shape[2], k.shape[2]
    result = products(q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if placed.scale is not None:
        result = result * placed.scale
    if placed.bias is not None:
        result = result + placed.bias.ordered(*sight.order(T, S, q.device)).rows(0, T, S, result)
    seen = sight.visible(0, T, S, T, S, q.device)
    return result if seen is None else result.masked_fill(~seen, -math.inf)


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
) -> Float[Tensor, "B H T V"] | tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]:
    """Attention of T queries over S keys, with the encoding's bias and scale.

    Args:
        q, k, v: ``(B, heads, length, channels)``; k and v may have fewer heads, a divisor of q's (grouped query).
        placed: ``encoding.at(q_positions, k_positions)``; of ``Layers``, that of this layer.
        sight: who may see whom: ``True`` (causal, both sequences ending at the same token), ``False`` (everything),
            or a ``posenc.Sight``. A query that sees no key returns zeros.
        scale: multiplies the scores before the bias; 1/√D by default.
        dropout: share of the weights set to zero; the rest grow by 1/(1 − dropout). 0 outside training.
        return_logsumexp: also return ln Σ exp(scores) of every row, ``(B, H, T)`` in float32 or wider, −∞ where a
            row sees no key, by which parts of a sequence attended to one by one are put together (ring attention).

    Raises:
        InvalidArgument: shapes, devices or head counts that do not fit together.

    Second derivatives exist where a mask, a bias or the logsumexp is involved; attention without any is torch's
    own kernel, which on the CPU has none: take ``scores(…).softmax(-1) @ v`` there.
    """
    sight = Sight.of(sight)
    check(q, k, v, placed, sight, scale)
    if not 0 <= dropout < 1:
        raise InvalidArgument(
            f"dropout={dropout} must lie in 0 … 1 (excluded), the share of weights that are dropped"
        )
    if dropout and return_logsumexp:
        raise InvalidArgument(
            "dropout cannot be put together by the logsumexp; use dropout=0 with return_logsumexp"
        )
    if placed.bias is not None and q.device.type != "meta" and torch.is_autocast_enabled(q.device.type):
        # Autocast would round the bias to 16 bits, and so merge far distances: only q, k and v are rounded.
        low = torch.get_autocast_dtype(q.device.type)
        q, k, v = (x if x.dtype == torch.float64 else x.to(low) for x in (q, k, v))
        with torch.autocast(q.device.type, enabled=False):
            return _attend(q, k, v, placed, sight, scale, dropout, return_logsumexp)
    return _attend(q, k, v, placed, sight, scale, dropout, return_logsumexp)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    sight: Sight,
    scale: float | None,
    dropout: float,
    return_logsumexp: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    """The fast path that sight and bias allow."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if placed.scale is not None:
        q = (q * placed.scale).to(q.dtype)
    T, S = q.shape[2], k.shape[2]
    group = _settled(q.shape[1] != k.shape[1])
    bias = None if placed.bias is None else placed.bias.ordered(*sight.order(T, S, q.device))
    square = _settled(T == S)
    whole = sight.only_causal and (not sight.causal or square or T == 1)
    if whole and not return_logsumexp and (bias is None or (channels := _channels(bias, q)) is not None):
        is_causal = sight.causal and square
        if is_causal and scale <= 0:  # torch's fused kernel hides before it scales
            q, scale = q * scale, 1.0
        if bias is None:
            return sdpa(q, k, v, is_causal=is_causal, scale=scale, dropout_p=dropout, enable_gqa=group)
        return _through_channels(q, k, v, channels, is_causal, scale, dropout)
    recipe = _Recipe(sight, bias, scale, T, S, q, return_logsumexp)
    if torch.compiler.is_compiling() and not return_logsumexp and not recipe.needs_scores:
        return sdpa(q, k, v, attn_mask=recipe.mask(0, T), scale=scale, dropout_p=dropout, enable_gqa=group)
    learning = torch.is_grad_enabled() and bool(recipe.learned)
    if recipe.line is not None and not return_logsumexp and not learning:
        return along_line(q, k, v, recipe.line, sight.causal, scale, dropout)
    plain = not torch.is_grad_enabled() or dropout or torch._C._are_functorch_transforms_active()
    if return_logsumexp or recipe.needs_scores or not plain:
        out, lse = recomputed(q, k, v, recipe)
        left_out = bias.left_out() if return_logsumexp and bias is not None else None
        lse = lse if left_out is None else lse + left_out
        return (out, lse) if return_logsumexp else out
    blocks = []
    for first, last, keys in row_blocks(T, S, sight.causal and sight.q_order is None):
        mask = recipe.mask(first, last)
        rows, to, of = q[:, :, first:last], k[:, :, :keys], v[:, :, :keys]
        blocks.append(sdpa(rows, to, of, attn_mask=mask, scale=scale, dropout_p=dropout, enable_gqa=group))
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=2)


def _settled(fact: bool) -> bool:
    """A plain bool: under a compiler lengths compare to a symbol, which a branch settles and torch's kernels refuse."""
    if fact:  # noqa: SIM103 - the branch is the point
        return True
    return False


def _channels(bias: Bias, q: Tensor) -> tuple[Tensor, Tensor] | None:
    """Channels, where rounding to 16 bits or a compiler makes them the better of two right ways."""
    if q.dtype == torch.float64 or (q.dtype == torch.float32 and not torch.compiler.is_compiling()):
        return None
    return bias.channels(q.dtype)


def _through_channels(
    q: Tensor, k: Tensor, v: Tensor, channels: tuple[Tensor, Tensor], is_causal: bool, scale: float, dropout: float
) -> Tensor:
    """The bias as more channels of q and k, in front, so that it is summed before q·k is added."""
    B, H, T, _ = q.shape
    more_q, more_k = (x.to(q.dtype).expand(B, -1, -1, -1) for x in channels)
    k, v = (x if x.shape[1] == H else x.repeat_interleave(H // x.shape[1], dim=1) for x in (k, v))
    q, k = torch.cat((more_q, q * scale), dim=-1), torch.cat((more_k, k), dim=-1)
    y = sdpa(q, k, pad(v, (0, q.shape[-1] - v.shape[-1])), is_causal=is_causal, scale=1.0, dropout_p=dropout)
    return y[..., : v.shape[-1]]


@dataclass(frozen=True, eq=False)
class _Recipe:
    """What is added to the scores of a block of rows: see ``kernels.attention.recomputed.Recipe``."""

    sight: Sight
    bias: Bias | None
    scale: float
    T: int
    S: int
    q: Tensor
    wants_lse: bool

    @property
    def learned(self) -> tuple[Tensor, ...]:
        return () if self.bias is None else tuple(x for x in self.bias.learned if x.requires_grad)

    @property
    def needs_scores(self) -> bool:
        return self.bias is not None and self.bias.needs_scores

    @property
    def line(self) -> Tensor | None:
        """The bias along a line, where nothing hides keys besides causality."""
        return self.bias.line if self.bias is not None and self.sight.only_causal else None

    def keys(self, last: int) -> int:
        return self.sight.keys_before(last, self.T, self.S)

    def mask(self, first: int, last: int, scores: Tensor | None = None) -> Float[Tensor, "#B #H #rows S"]:
        keys = self.keys(last)
        seen = self.sight.visible(first, last, keys, self.T, self.S, self.q.device)
        zero = torch.zeros((), dtype=mask_dtype(self.q), device=self.q.device)
        hidden = zero if seen is None else torch.where(seen, zero, -math.inf)
        if self.bias is None:
            return hidden.expand(hidden.shape[0] if seen is not None else 1, 1, last - first, keys)
        bias = self.bias.rows(first, last, keys, scores).to(mask_dtype(self.q))
        # Adding −∞ takes a tenth of the time of filling by a mask that broadcasts.
        return bias if seen is None else bias + hidden
