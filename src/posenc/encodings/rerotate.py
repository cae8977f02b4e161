"""Moves cached keys from one rotary encoding to another, without the tokens they came from.

A cached key is R(φ)k with a spectrum's angles φ, times its attention factor. R(φ')k = R(φ' − φ) R(φ)k, so one
more turn by the difference of the angles moves it: a cache that has outgrown its plan
(dynamic NTK, LongRoPE) goes on without reading the prompt again.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.encoding import check_heads
from posenc.encodings.placed import Positions, over_heads
from posenc.encodings.rotary import Rotary, rotate
from posenc.errors import InvalidArgument


def rerotate(
    k: Float[Tensor, "B K S D"], positions: Positions, from_: Rotary, to: Rotary
) -> Float[Tensor, "B K S D"]:
    """Keys that ``from_`` rotated at ``positions``, as ``to`` would have rotated them.

    Args:
        k: cached keys, ``(B, K, S, D)``.
        positions: int64 ``(S,)`` or ``(B, S)``, where they were rotated.
        from_, to: they may differ in base, schedule and phases; head_dim, rotary_dim and pairing must agree.

    The result carries one rounding more than keys rotated once; in bfloat16 keep keys unrotated instead.
    """
    for name in ("head_dim", "rotary_dim", "pairing", "axis_map"):
        old, new = getattr(from_, name), getattr(to, name)
        if old != new:
            raise InvalidArgument(
                f"from_ has {name}={old!r} and to has {name}={new!r}; only base, schedule and phases may differ"
            )
    from_.check(positions, "positions")
    check_heads("k", k, positions, from_.head_dim, from_.axes)
    wide = torch.float32 if positions.device.type == "mps" else torch.float64
    old_cos, old_sin = (over_heads(table) for table in from_.turned(positions, wide))
    new_cos, new_sin = (over_heads(table) for table in to.turned(positions, wide))
    scale = to.attention_factor / from_.attention_factor
    cos = (new_cos * old_cos + new_sin * old_sin) * scale
    sin = (new_sin * old_cos - new_cos * old_sin) * scale
    return rotate(k, cos, sin, from_.pairing)
