"""Every way in which q, k, v, an encoding and a mask can fail to fit together, each with its own sentence."""

import math

from torch import Tensor

from posenc.encodings.placed import Placed, heads_of
from posenc.errors import InvalidArgument
from posenc.kernels.memory import may_be_looked_at
from posenc.mask import Mask


def check(q: Tensor, k: Tensor, v: Tensor | None, placed: Placed, mask: Mask, scale: float | None) -> Mask:
    """Refuse what does not fit, and say what is seen within the layer's window; ``v`` is None where only scores are
    asked for."""
    if not isinstance(placed, Placed):
        given_instead = None if placed is None else type(placed).__name__
        raise InvalidArgument(
            f"placed is {given_instead}; place the encoding first: encoding.at(positions), and for no positions at "
            "all posenc.NoPE().at(positions)"
        )
    placed.check_current()
    given = {"q": q, "k": k} | ({} if v is None else {"v": v})
    for name, x in given.items():
        if x.dim() != 4:
            raise InvalidArgument(f"{name} has shape {tuple(x.shape)}; expected (B, heads, length, channels)")
        if not x.dtype.is_floating_point:
            raise InvalidArgument(f"{name} is {x.dtype}; expected a floating type, such as torch.float32")
    _devices(given, placed)
    _sizes(q, k, k if v is None else v)
    _positions(q, k, placed)
    if q.shape[3] <= placed.added:
        raise InvalidArgument(
            f"q has {q.shape[3]} channels a head, and rotate of this encoding adds {placed.added}; pass what it "
            "returned"
        )
    if scale is not None and not 0 < scale < math.inf:
        raise InvalidArgument(f"scale={scale} must be a finite number above 0; leave it out for 1/√D")
    mask = mask.within(placed.window)
    mask.check(q.shape[0], q.shape[2], k.shape[2], q.device)
    _ends(q, k, mask)
    return mask


def check_types(**given: Tensor) -> None:
    """Refuse queries, keys and values of different types, of which ways of computing make different things."""
    types = {x.dtype for x in given.values()}
    if len(types) > 1:
        told = " and ".join(f"{name} is {x.dtype}" for name, x in given.items())
        raise InvalidArgument(f"{told}; they must agree: cast those that come out of a cache, k.to(q.dtype)")


def _devices(given: dict[str, Tensor], placed: Placed) -> None:
    device = given["q"].device
    devices = {name: x.device for name, x in given.items()} | {"the encoding": placed.q_positions.device}
    for name, other in devices.items():
        if other != device:
            raise InvalidArgument(f"q is on {device} and {name} on {other}; move one with .to(…)")


def _sizes(q: Tensor, k: Tensor, v: Tensor) -> None:
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise InvalidArgument(
            f"q has batch size {q.shape[0]}, k {k.shape[0]} and v {v.shape[0]}; they must agree: expand the smaller"
        )
    if k.shape[1] != v.shape[1] or k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        raise InvalidArgument(
            f"q has {q.shape[1]} heads, k {k.shape[1]} and v {v.shape[1]}; k and v need the same, a divisor of q's"
        )
    if q.shape[3] != k.shape[3] or q.shape[3] < 1:
        raise InvalidArgument(
            f"q has {q.shape[3]} channels a head and k {k.shape[3]}; they must agree, and be at least 1"
        )
    if k.shape[2] != v.shape[2]:
        raise InvalidArgument(f"k has {k.shape[2]} keys and v {v.shape[2]}; they must agree")


def _positions(q: Tensor, k: Tensor, placed: Placed) -> None:
    if placed.awaits_content:
        raise InvalidArgument(
            "this encoding has something else in every layer, or reads what tokens say and has not read them yet; "
            "call here, state = placed[layer].with_content(x, state) and pass here in place of placed"
        )
    for name, x, positions in (("q", q, placed.q_positions), ("k", k, placed.k_positions)):
        if x.shape[2] != positions.shape[-1]:
            raise InvalidArgument(
                f"{name} has length {x.shape[2]} but the encoding was placed at {positions.shape[-1]} positions; "
                "with a cache call encoding.at(positions, k_positions)"
            )
        batched = positions.dim() == (2 if placed.axes == 1 else 3)
        if batched and positions.shape[-2] not in (1, x.shape[0]):
            raise InvalidArgument(
                f"{name} has batch size {x.shape[0]} but the encoding was placed at {positions.shape[-2]} rows of "
                "positions; give one row per sequence, or one for all"
            )
    for what, heads in heads_of(placed).items():
        if heads != q.shape[1]:
            raise InvalidArgument(
                f"q has {q.shape[1]} heads and the {what} {heads}; the encoding needs all {q.shape[1]}, and "
                "a rank that holds some heads of a model takes posenc.SomeHeads(encoding, first, last)"
            )


def _ends(q: Tensor, k: Tensor, mask: Mask) -> None:
    """Refuse sequences said to end together whose last key is hidden: slots of a cache that are still empty."""
    keys = mask.key_mask
    if keys is None or not mask.causal or mask.q_order is not None or not 0 < q.shape[2] < k.shape[2]:
        return
    if keys.device.type == "cpu" and may_be_looked_at(keys) and not bool(keys[:, -1].any()):
        raise InvalidArgument(
            f"key_mask hides the last of {k.shape[2]} keys, which would be the last query's own; in a cache with "
            "empty slots say where tokens stand: Mask(causal=True, q_order=…, k_order=…)"
        )
