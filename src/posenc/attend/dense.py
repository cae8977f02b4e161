"""The specification of attention: plain operators that compute all scores at once, with one formula."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import as_scale, no_argument, parameters_of
from posenc.attend.attend import rounded
from posenc.attend.call import check, check_sinks, scale_of_scores
from posenc.attend.remapped import RemappedMask
from posenc.encodings.placed import Placed
from posenc.encodings.wide import unrounded
from posenc.kernels.attention.softmax import capped, products
from posenc.mask import Mask


def scores(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    placed: Placed = None,  # type: ignore[assignment]
    mask: Mask | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
    **unknown: object,
) -> Float[Tensor, "B H T keys"]:
    """Return the dense scores before softmax, in float32 or wider. Every backend must match this specification.
    Under autocast, q and k are rounded, as in ``attention``, and the rest is computed without autocast.

    scores = capped(q·kᵀ·scale·placed.scale) + placed.bias, or −∞ at hidden keys, where capped(x) is
    softcap·tanh(x/softcap), or x without a softcap. The logits of ``sinks`` are an additional last column.
    Arguments and errors are as in ``attention``.
    """
    for word in unknown:
        raise no_argument("scores", word, parameters_of(scores))
    mask = check(q, k, None, placed, Mask.of(mask, causal, window))
    T, S = q.shape[2], k.shape[2]
    parts = [(part, rounded(*part.rotate(q, k))) for part in placed.remaps]
    q, k = rounded(q, k)
    with unrounded(q):
        plain = products(q, k)
        for part, rotated in parts:
            met = RemappedMask(k_positions=placed.k_positions, q_from=part.q_from, q_until=part.q_until)
            sees = met.visible(T, S, q.device)
            assert sees is not None
            plain = torch.where(sees, products(*rotated), plain)
        scale = scale_of_scores(placed, q.shape[-1], scale)
        result = plain * scale if placed.scale is None else plain * scale * placed.scale
        result = capped(result, as_scale(softcap, "softcap"))
        visible = mask.visible(T, S, q.device)
        result = result if visible is None else result.masked_fill(~visible, -math.inf)
        if placed.bias is not None:
            bias = placed.bias.ordered(*mask.order(T, S, q.device)).meeting(q, k, scale)
            result = result + bias.rows(0, T, S, result)
    if sinks is None:
        return result
    check_sinks(sinks, q)
    return torch.cat((result, sinks.to(result.dtype)[:, None, None].expand(*result.shape[:3], 1)), dim=-1)
