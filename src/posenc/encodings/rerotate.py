"""Moves cached keys to other positions or to another encoding, without recomputing the keys from tokens.

A cached key has been rotated by the angles for its position. If this rotation can be undone (k = R(φ)⁻¹ R(φ)k),
the key can be rotated again. A key needs new frequencies if its cache outgrows the length for which the frequencies
were computed (dynamic NTK, LongRoPE), and a new position if a context is shifted, a prefix is reused or a retrieved
passage is moved. A cache can also store unrotated keys, which quantise better, and rotate the keys when they are
read.
"""

from itertools import product

from jaxtyping import Float
from torch import Tensor

from posenc.arguments import instance, tensors
from posenc.encodings.compose import Composed
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import Positions
from posenc.encodings.wide import widest
from posenc.errors import InvalidArgument

ABSENT = object()
"""The value that stands for an attribute that an encoding does not have."""


AN_ENCODING = "an encoding, such as posenc.Rotary(…), or huggingface.read(config).as_layers() for a model"
"""What functions expect as an encoding, in their error messages."""


def _rotations(encoding: Encoding) -> list[Encoding]:
    """Return all rotations in an encoding, in order."""
    if isinstance(encoding, Composed):
        return [rotation for part in encoding.encodings for rotation in _rotations(part)]
    return [encoding] if "queries_keys" in encoding.acts_on else []


def check_movable(encoding: Encoding, name: str) -> None:
    """Raise an error unless the argument ``name`` is an encoding whose cached keys can be moved."""
    instance(encoding, Encoding, name, AN_ENCODING)
    if encoding.not_rerotatable:
        raise InvalidArgument(f"cached keys of {encoding.name} cannot be moved: {encoding.not_rerotatable}")


def rerotate(
    k: Float[Tensor, "B K S D"],
    positions: Positions,
    from_: Encoding,
    to: Encoding,
    to_positions: Positions | None = None,
) -> Float[Tensor, "B K S E"]:
    """Convert cached keys, which ``from_`` rotated at ``positions``, to keys that are rotated by ``to`` at
    ``to_positions``.

    Args:
        k: cached keys, ``(B, K, S, D)``.
        positions: the positions at which the keys were rotated, int64 or int32, in any shape that ``at`` accepts.
        from_: the encoding that rotated the keys; ``NoPE()`` if the keys are not rotated.
        to: the encoding that rotates the result; ``NoPE()`` to unrotate the keys.
        to_positions: the new positions; by default ``positions``.

    Raises:
        InvalidArgument: the keys are not floating-point; the two encodings rotate different channels; or keys of
            one of the encodings cannot be moved, for example because its rotation cannot be undone or because it
            adds positions to the token embeddings. The message states the reason.

    The result is computed in float64 (float32 on a device without float64) and rounded once, so moved keys have
    one more rounding error than keys that were rotated only once.
    """
    tensors(k=k)
    if not k.is_floating_point():
        raise InvalidArgument(f"k is {k.dtype}; expected a floating-point dtype; dequantise the keys first")
    check_movable(from_, "from_")
    check_movable(to, "to")
    rotations = [_rotations(encoding) for encoding in (from_, to)]
    alike = len(rotations[0]) == len(rotations[1])
    for old_part, new_part in zip(*rotations, strict=True) if alike else product(*rotations):
        for name in ("head_dim", "rotary_dim", "pairing", "axis_map"):
            old, new = (getattr(encoding, name, ABSENT) for encoding in (old_part, new_part))
            if old != new and ABSENT not in (old, new):
                raise InvalidArgument(
                    f"from_ has {name}={old!r} and to has {name}={new!r}; both encodings must have the same "
                    f"{name}, because cached keys cannot be converted to another {name}"
                )
    to_positions = positions if to_positions is None else to_positions
    for encoding, at, name in ((from_, positions, "positions"), (to, to_positions, "to_positions")):
        if encoding.acts_on:  # NoPE accepts positions with any axes
            encoding.check(at, name)
    compute_dtype = widest(k.device)
    return to.rotate_keys(from_.unrotate(k.to(compute_dtype), positions.long()), to_positions.long()).to(k.dtype)
