"""The catalogue: every encoding by name, as a fresh transformer would use it."""

from collections.abc import Callable
from dataclasses import dataclass

from posenc.encodings.alibi import ALiBi
from posenc.encodings.encoding import Encoding
from posenc.encodings.learned import Learned
from posenc.encodings.nope import NoPE
from posenc.encodings.rotary import Rotary
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.errors import InvalidArgument, UnknownName
from posenc.names import canonical


@dataclass(frozen=True)
class ModelShape:
    """The facts about a transformer that an encoding may need; each encoding takes those it uses.

    Args:
        width: C, channels of the token embeddings.
        heads: H, query heads.
        head_dim: D, channels of one head.
        num_positions: rows of a learned table, usually the trained length.
    """

    width: int | None = None
    heads: int | None = None
    head_dim: int | None = None
    num_positions: int | None = None

    def need(self, fact: str) -> int:
        """The fact of that name; an error that says what to add where it was left out."""
        value: int | None = getattr(self, fact)
        if value is None:
            raise InvalidArgument(f"this encoding needs {fact}; add {fact}=… to the call")
        return value


CATALOGUE: dict[str, Callable[[ModelShape], Encoding]] = {
    "nope": lambda shape: NoPE(),
    "sinusoidal": lambda shape: Sinusoidal(shape.need("width")),
    "learned": lambda shape: Learned(shape.need("num_positions"), shape.need("width")),
    "learned-clamped": lambda shape: Learned(shape.need("num_positions"), shape.need("width"), past_end="clamp"),
    "rotary": lambda shape: Rotary(shape.need("head_dim"), pairing="half"),
    "alibi": lambda shape: ALiBi(shape.need("heads")),
}


def encoding(
    name: str,
    *,
    width: int | None = None,
    heads: int | None = None,
    head_dim: int | None = None,
    num_positions: int | None = None,
) -> Encoding:
    """The encoding of this name for a fresh transformer: ``encoding("rotary", head_dim=64)``, or ``"rope"``.

    Pass what is known of the model; each encoding takes the facts it uses (see ``ModelShape``), so that one
    call serves every name. Settings beyond those facts, and checkpoints, go through the classes:
    ``Rotary(head_dim=64, pairing="interleaved", base=500_000)``. Rotary pairs are ``"half"`` here.

    Raises:
        UnknownName: no encoding of that name; the message lists the nearest.
        InvalidArgument: a fact is missing or out of range.
    """
    name = canonical(name)
    if name not in CATALOGUE:
        raise UnknownName("encoding", name, CATALOGUE)
    return CATALOGUE[name](ModelShape(width, heads, head_dim, num_positions))
