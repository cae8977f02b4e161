"""Remapped encodings are rotations that use different positions for different ranges of distances."""

from abc import abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import shown
from posenc.clock import Phases
from posenc.encodings.catalogue import remap
from posenc.encodings.encoding import Encoding
from posenc.encodings.layers import Layers
from posenc.encodings.nope import NoPE
from posenc.encodings.placed import KeyPositions, Keys, Placed, Positions, Queries, RemappedPart
from posenc.encodings.rotary import Rotary
from posenc.encodings.text import parse
from posenc.errors import InvalidArgument
from posenc.scaling.scaling import Scaling

At = Callable[..., Placed]
"""A function that places a rotation at given positions. By default, this rotation is the encoding's ``rotary``;
a second argument replaces it.
"""


class PlacedRemap(Placed):
    """A remapped encoding at given positions. Each part covers a range of distances and rotates queries to its own
    positions. A part also rotates keys, unless it uses keys as a cache stores them.
    """

    def __init__(
        self, remap: "Remap", q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype
    ) -> None:
        super().__init__(q_positions, k_positions)

        def at(positions: Tensor, rotary: Rotary = remap.rotary) -> Placed:
            return rotary.placed(positions, positions, dtype)

        self.head_dim, self.softmax_factor = remap.head_dim, remap.rotary.softmax_factor
        self.remaps = remap.parts(q_positions, k_positions, at)
        q = remap.cached(q_positions)
        k = q if k_positions is q_positions else remap.cached(k_positions)
        self.keys = None if q is None or k is None else remap.rotary.placed(q, k, dtype)

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        """Return unrotated queries, because each part rotates queries to its own positions, and return keys as a
        cache stores them.
        """
        self.keys_at_queries(q, k, self.head_dim)
        return q, k if k is None or self.keys is None else self.keys.rotate(None, k)[1]

    def unrotate(self, k: Float[Tensor, "B K S D"]) -> Float[Tensor, "B K S D"]:
        return k if self.keys is None else self.keys.unrotate(k)


class Remap(Encoding):
    """A rotation that replaces the positions of queries and keys. The rule for a query and a key depends on the
    distance between them. There are no parameters.

    A subclass implements ``parts``, and also ``cached`` if keys have the same positions in all parts. The parts
    together must cover all distances. Positions have one axis, and masks must be causal.

    Args:
        rotary: the model's own rotary encoding.
    """

    acts_on = ("queries_keys",)
    causal = remapped = True
    not_rerotatable = ""

    def __init__(self, rotary: Rotary) -> None:
        super().__init__()
        if not isinstance(rotary, Rotary) or rotary.axes != 1:
            raise InvalidArgument(
                f"rotary is {shown(rotary)}; expected a posenc.Rotary(…) with one axis; for a model's "
                f'Layers, use posenc.remap.remapped(layers, "{self.name}(rotary, …)")'
            )
        self.rotary = rotary
        self.head_dim, self.rotary_dim, self.pairing = rotary.head_dim, rotary.rotary_dim, rotary.pairing
        self.isometric, self.signed, self.scaling = rotary.isometric, rotary.signed, rotary.scaling

    @abstractmethod
    def parts(self, q: Tensor, k: Tensor, at: At) -> tuple[RemappedPart, ...]:
        """Return the parts for queries at positions q and keys at positions k, near keys first; every key is in
        exactly one part."""

    @abstractmethod
    def longest(self, trained: int) -> float:
        """Return the length of the longest sequence that uses no distance above ``trained`` − 1, or ∞ if there is
        no limit. If tokens at distance ``trained`` keep this distance, the longest sequence has ``trained`` tokens,
        because every longer sequence contains such tokens.
        """

    def cached(self, positions: Tensor) -> Tensor | None:
        """Return the positions to which cached keys are rotated, or None if a cache stores unrotated keys."""
        return None

    def with_scaling(self, scaling: Scaling | None, phases: Phases | None = None) -> Encoding:
        rotary = self.rotary.with_scaling(scaling, phases)
        return rotary if isinstance(rotary, NoPE) else self.with_settings(rotary=rotary)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedRemap(self, q_positions, k_positions, dtype)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self.settings.items() if name != "rotary")


def remapped(encoding: Encoding, text: str) -> Encoding:
    """Remap positions, as in ``remapped(encoding, "dca(rotary, chunk=3072, local=384)")``. In this string,
    ``rotary`` stands for ``encoding`` or, if ``encoding`` is ``Layers``, for each module in ``encoding.stretched``.

    Raises:
        InvalidArgument: an encoding that ``rotary`` stands for is not a ``Rotary`` with one axis.
    """
    if not isinstance(encoding, Layers):
        return remap(parse(text), encoding)
    stretched = encoding.stretched
    return encoding._of(
        tuple(remapped(part, text) if name in stretched else part for name, part in encoding.by_name.items())
    )
