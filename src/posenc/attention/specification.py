"""The eager specification of attention: what softmax is taken of, as a formula, dense."""

import math

from jaxtyping import Float
from torch import Tensor

from posenc.attention.decay import fading_products
from posenc.attention.fit import check
from posenc.encodings.placed import Placed
from posenc.kernels.attention.block import products
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

    Arguments and errors are those of ``attention``.
    """
    sight = check(q, k, None, placed, sight, scale)
    T, S = q.shape[2], k.shape[2]
    plain = products(q, k) if placed.decay is None else fading_products(q, k, placed)
    scale = 1 / math.sqrt(q.shape[-1] - placed.added) if scale is None else scale
    result = plain * scale
    if placed.scale is not None:
        result = result * placed.scale
    seen = sight.visible(0, T, S, T, S, q.device)
    result = result if seen is None else result.masked_fill(~seen, -math.inf)
    if placed.bias is None:
        return result
    bias = placed.bias.ordered(*sight.order(T, S, q.device)).meeting(q, k, scale)
    return result + bias.rows(0, T, S, result)
