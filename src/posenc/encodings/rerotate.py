"""Moves cached keys to other positions or another encoding, without the tokens they came from.

A cached key is what ``rotate`` made of it at its position. Where that can be undone, k = R(φ)⁻¹ R(φ)k, it can be
done again: with other frequencies, when a cache has outgrown its plan (dynamic NTK, LongRoPE); at other positions,
when a context is shifted, a prefix reused or a retrieved passage put elsewhere; or late, from keys that were kept
as they came, because they are quantised better before they are rotated.
"""

from itertools import product

from jaxtyping import Float
from torch import Tensor

from posenc.arguments import tensors
from posenc.encodings.compose import Composed
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import Positions
from posenc.encodings.wide import widest
from posenc.errors import InvalidArgument

ABSENT = object()
"""What an encoding has under a name that it does not have."""


def _rotations(encoding: Encoding) -> list[Encoding]:
    """What rotates in it, in order."""
    if isinstance(encoding, Composed):
        return [rotation for part in encoding.encodings for rotation in _rotations(part)]
    return [encoding] if "queries_keys" in encoding.acts_on else []


def rerotate(
    k: Float[Tensor, "B K S D"],
    positions: Positions,
    from_: Encoding,
    to: Encoding,
    to_positions: Positions | None = None,
) -> Float[Tensor, "B K S E"]:
    """Keys that ``from_`` rotated at ``positions``, as ``to`` would have rotated them.

    Args:
        k: cached keys, ``(B, K, S, D)``.
        positions: int64 or int32, where they were rotated, in any shape that ``at`` takes: by row, and by axis.
        from_, to: what rotated them and what shall. ``NoPE()`` stands for keys that were not rotated: from it keys
            rotate late, to it they rotate back.
        to_positions: where they shall be; default where they are.

    Raises:
        InvalidArgument: one of the two cannot be undone or done to keys alone, and why; or other channels rotate.

    Computed in float64 (float32 where a device has none) and rounded once, so that the result carries one rounding
    more than keys rotated once.
    """
    tensors(k=k)
    for encoding in (from_, to):
        if not isinstance(encoding, Encoding):
            raise InvalidArgument(f"from_ and to must be encodings; got {encoding!r}: posenc.Rotary(…)")
    rotations = [_rotations(encoding) for encoding in (from_, to)]
    alike = len(rotations[0]) == len(rotations[1])
    for old_part, new_part in zip(*rotations, strict=True) if alike else product(*rotations):
        for name in ("head_dim", "rotary_dim", "pairing", "axis_map"):
            old, new = (getattr(encoding, name, ABSENT) for encoding in (old_part, new_part))
            if old != new and ABSENT not in (old, new):
                raise InvalidArgument(
                    f"from_ has {name}={old!r} and to has {name}={new!r}; which channels rotate together, and by "
                    "which axis, is the model's and stays"
                )
    for encoding in (from_, to):
        if encoding.not_rerotatable:
            raise InvalidArgument(f"cached keys of {encoding.name} cannot be moved: {encoding.not_rerotatable}")
    to_positions = positions if to_positions is None else to_positions
    for encoding, at, name in ((from_, positions, "positions"), (to, to_positions, "to_positions")):
        if encoding.acts_on:  # NoPE stands for the other's axes too
            encoding.check(at, name)
    compute_dtype = widest(k.device)
    return to.rotate_keys(from_.unrotate(k.to(compute_dtype), positions.long()), to_positions.long()).to(k.dtype)
