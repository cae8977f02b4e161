"""Attention without an L×L tensor: the way from one call to whoever computes it.

Whole where torch's own kernels serve, along a line or through extra channels where the bias offers them, else by
blocks of rows. Every way equals softmax(``scores``)·v.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, overload

import torch
from jaxtyping import Float
from torch import _C, Tensor
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as sdpa

from posenc.attention.fit import check
from posenc.encodings.bias import Bias, Channels
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.kernels.attention.block import fused
from posenc.kernels.attention.blocks import by_blocks, by_operators, mask_dtype, recomputed
from posenc.sight import Sight


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

    Second derivatives exist on the CPU; on other devices torch's kernels have none, and
    ``scores(…).softmax(-1) @ v`` is the way.
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
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    autocast = q.device.type != "meta" and torch.is_autocast_enabled(q.device.type)
    if autocast:
        # Autocast would round the bias to 16 bits, and so merge far distances: only q, k and v are rounded.
        low = torch.get_autocast_dtype(q.device.type)
        q, k, v = (x if x.dtype == torch.float64 else x.to(low) for x in (q, k, v))
    with torch.autocast(q.device.type, enabled=False) if autocast else nullcontext():
        work = Work.of(q, k, placed, sight, scale, exact_rows=return_logsumexp)
        if placed.scale is not None:
            q = (q * placed.scale).to(q.dtype)
        return _attend(q, k, v, work, dropout, return_logsumexp)


def merge(
    parts: Sequence[tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]],
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]:
    """Attention over all keys, from outputs and logsumexps over parts of them (``return_logsumexp=True``).

    Keys may be cut in any way, as when they travel around a ring of ranks: y = Σ_i exp(l_i − l)·y_i with
    l = ln Σ_i exp(l_i). Rows that see no key in any part are zero.
    """
    lse = torch.stack([part for _, part in parts]).logsumexp(0)
    shift = lse.masked_fill(lse == -math.inf, 0.0)
    y = sum(out * (part - shift).exp()[..., None] for out, part in parts)
    assert isinstance(y, Tensor)
    return y.to(parts[0][0].dtype), lse


def _attend(
    q: Tensor, k: Tensor, v: Tensor, work: "Work", dropout: float, return_logsumexp: bool
) -> Tensor | tuple[Tensor, Tensor]:
    """The way to whoever computes; every branch equals softmax(scores)·v."""
    gqa = said(q.shape[1] != k.shape[1])
    compiling = torch.compiler.is_compiling()
    transformed = not compiling and _C._are_functorch_transforms_active()
    if dropout and (work.needs_scores or transformed):
        raise InvalidArgument(
            f"dropout={dropout} is not offered for a bias that reads scores, nor inside a function transform; use 0"
        )
    if return_logsumexp or transformed or (work.needs_scores and not compiling):
        out, lse = recomputed(q, k, v, work) if not transformed else by_operators(q, k, v, work)
        return (out, lse) if return_logsumexp else out
    channels = work.channels(q, compiling)
    if channels is not None:
        return _through_channels(q, k, v, channels, work, dropout)
    learning = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *work.learned))
    if learning and not dropout and not compiling and (work.learned or fused(q, k, v)):
        return recomputed(q, k, v, work)[0]
    if work.whole:
        causal = said(work.is_causal)
        return sdpa(q, k, v, is_causal=causal, scale=work.scale, dropout_p=dropout, enable_gqa=gqa)
    if compiling:
        scores = _all_scores(q, k, work.scale) if work.needs_scores else None
        mask = work.mask(0, work.queries, scores)
        return sdpa(q, k, v, attn_mask=mask, scale=work.scale, dropout_p=dropout, enable_gqa=gqa)
    return by_blocks(q, k, v, work, dropout)


def _through_channels(
    q: Tensor, k: Tensor, v: Tensor, channels: Channels, work: "Work", dropout: float
) -> Float[Tensor, "B H T V"]:
    """The bias as more channels of q and k, in front, so that it is summed before q·k is added."""
    B, H = q.shape[:2]
    more_q, more_k = (x.to(q.dtype).expand(B, -1, -1, -1) for x in channels)
    k, v = (_for_every_head(x, H) for x in (k, v))
    q, k = torch.cat((more_q, q * work.scale), dim=-1), torch.cat((more_k, k), dim=-1)
    wide = pad(v, (0, q.shape[-1] - v.shape[-1]))
    return sdpa(q, k, wide, is_causal=said(work.is_causal), scale=1.0, dropout_p=dropout)[..., : v.shape[-1]]


def _all_scores(q: Tensor, k: Tensor, scale: float) -> Float[Tensor, "B H T S"]:
    """q·kᵀ·scale in one piece, without the views of groups whose lengths an exporter cannot tell."""
    wide = torch.promote_types(q.dtype, torch.float32)
    return q.to(wide) @ _for_every_head(k, q.shape[1]).to(wide).mT * scale


def _for_every_head(x: Float[Tensor, "B K S n"], heads: int) -> Float[Tensor, "B H S n"]:
    """What heads share, once for every head."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def said(flag: bool) -> bool:
    """The flag as a plain bool: made of lengths it is a symbol under a compiler, and sdpa takes none."""
    if flag:  # noqa: SIM103  returning it would return the symbol
        return True
    return False


@dataclass(frozen=True, eq=False)
class Work:
    """What one call adds to the scores of a block of rows, and which shortcuts it allows; see ``blocks.Work``."""

    sight: Sight
    bias: Bias | None
    scale: float
    queries: int
    all_keys: int
    device: torch.device
    dtype: torch.dtype
    exact_rows: bool
    """Whether rows may lose no number that all their keys share, since their logsumexp is asked for."""
    learned: tuple[Tensor, ...]
    """The bias's tensors that a gradient is wanted for; noted here, as autograd calls back with gradients off."""

    @classmethod
    def of(cls, q: Tensor, k: Tensor, placed: Placed, sight: Sight, scale: float, exact_rows: bool) -> "Work":
        T, S = q.shape[2], k.shape[2]
        bias = placed.bias
        if bias is not None:
            bias = bias.ordered(*sight.order(T, S, q.device)).meeting(q, k, scale)
        learned = () if bias is None or not torch.is_grad_enabled() else bias.learned
        learned = tuple(x for x in learned if x.requires_grad)
        return cls(sight, bias, scale, T, S, q.device, mask_dtype(q), exact_rows, learned)

    @property
    def open(self) -> bool:
        """Whether nothing hides keys that one flag could not say: everything is seen, or causality all there is."""
        return self.sight.only_causal and (
            not self.sight.causal or self.queries == 1 or bool(self.queries == self.all_keys)
        )

    @property
    def is_causal(self) -> bool:
        return self.sight.causal and self.queries != 1

    @property
    def whole(self) -> bool:
        """Whether one call without a mask does it."""
        return self.bias is None and self.open

    @property
    def needs_scores(self) -> bool:
        return self.bias is not None and self.bias.needs_scores

    @property
    def line(self) -> Tensor | None:
        """The bias along a line, where nothing hides keys besides causality and no gradient flows to it."""
        if self.bias is None or not self.sight.only_causal or self.learned or self.exact_rows:
            return None
        return self.bias.line

    def channels(self, q: Tensor, compiling: bool) -> Channels | None:
        """Channels, where rounding to 16 bits or a compiler makes them the better of two right ways."""
        if self.bias is None or not self.open or q.dtype == torch.float64:
            return None
        return self.bias.channels(q.dtype) if compiling or q.dtype != torch.float32 else None

    def keys(self, last: int) -> int:
        """How many of the first keys the first ``last`` rows may see at most."""
        return self.sight.keys_before(last, self.queries, self.all_keys)

    def mask(self, first: int, last: int, scores: Tensor | None = None) -> Float[Tensor, "#B #H #rows S"]:
        """Bias, and −∞ at what is hidden, for the rows ``first`` to ``last`` and their first keys."""
        keys = self.keys(last)
        seen = self.sight.visible(first, last, keys, self.queries, self.all_keys, self.device)
        zero = torch.zeros((), dtype=self.dtype, device=self.device)
        hidden = zero.expand(1, 1, 1, keys) if seen is None else torch.where(seen, zero, -math.inf)
        if self.bias is None:
            return hidden.expand(-1, 1, last - first, keys)
        if scores is not None and seen is not None:
            scores = scores.masked_fill(~seen, -math.inf)
        if self.exact_rows:
            bias = self.bias.rows(first, last, keys, scores)
        else:
            bias = self.bias.differences(first, last, keys, seen, scores)
        # Adding −∞ takes a tenth of the time of filling by a mask that broadcasts.
        return bias.to(self.dtype) if seen is None else bias.to(self.dtype) + hidden
