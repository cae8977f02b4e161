"""What a remapped encoding is: a rotation at several positions, each for some of the distances."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import as_integer
from posenc.clock import Phases
from posenc.encodings.encoding import Encoding, check_heads, keys_at_queries
from posenc.encodings.nope import NoPE
from posenc.encodings.placed import KeyPositions, Keys, Placed, Positions, Queries, RemappedPart
from posenc.encodings.rotary import Rotary
from posenc.errors import InvalidArgument
from posenc.scaling.scaling import Scaling


@dataclass(frozen=True)
class Part:
    """Where queries and keys stand in one part, and which keys it sees: those at positions from ``q_from`` on and
    below ``q_until``.

    Args:
        queries: the positions of the queries.
        keys: those of the keys; None where they are those that the cache has rotated them to.
        q_from, q_until: positions of keys, for every query; None for no bound.
        rotary: what rotates; None for the encoding's own.
    """

    queries: Tensor
    keys: Tensor | None = None
    q_from: Tensor | None = None
    q_until: Tensor | None = None
    rotary: Rotary | None = None


class PlacedRemap(Placed):
    """The rotations of every part at the queries' positions, and at those of keys that a part moves."""

    def __init__(
        self, remap: "Remap", q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype
    ) -> None:
        super().__init__(q_positions, k_positions)
        rotary = remap.rotary
        self.head_dim, self.softmax_factor = remap.head_dim, rotary.softmax_factor
        self.keys: Placed | None = None
        if remap.rotates_cached:
            new = remap.cached(q_positions)
            self.keys = rotary.placed(new, new if k_positions is q_positions else remap.cached(k_positions), dtype)
        self.remaps = tuple(
            RemappedPart(
                (part.rotary or rotary).placed(part.queries, part.queries, dtype),
                None if part.keys is None else (part.rotary or rotary).placed(part.keys, part.keys, dtype),
                part.q_from,
                part.q_until,
            )
            for part in remap.parts(q_positions, k_positions)
        )

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        """Queries as they are, since every part rotates them elsewhere, and keys as a cache keeps them."""
        keys_at_queries(self, q, k, self.head_dim)
        return q, k if k is None or self.keys is None else self.keys.rotate(None, k)[1]


class Remap(Encoding):
    """A rotation whose queries and keys stand elsewhere for some distances than for others; without parameters.

    A subclass writes ``parts``, which share out all distances, and, where the keys of all parts stand at the same
    positions, ``cached``. Positions are of one axis; only causal models have numbers for it.

    Args:
        rotary: what rotates: the model's own.
    """

    acts_on = ("queries_keys",)
    causal = remapped = True
    not_rerotatable = ""

    rotates_cached: bool = False
    """Whether a cache keeps keys rotated, at the positions of ``cached``; else it keeps them raw."""

    def __init__(self, rotary: Rotary, **sizes: int) -> None:
        super().__init__()
        if not isinstance(rotary, Rotary) or rotary.axes != 1:
            raise InvalidArgument(f"rotary is {rotary!r}; expected posenc.Rotary(…) with positions of one axis")
        self.rotary = rotary
        for name, size in sizes.items():
            if as_integer(size, name) < 1:
                raise InvalidArgument(f"{name}={size} must be a whole number of at least 1")
            setattr(self, name, as_integer(size, name))
        self.head_dim, self.rotary_dim, self.pairing = rotary.head_dim, rotary.rotary_dim, rotary.pairing
        self.isometric, self.signed, self.scaling = rotary.isometric, rotary.signed, rotary.scaling

    @abstractmethod
    def parts(self, q: Tensor, k: Tensor) -> tuple[Part, ...]:
        """The parts, of queries at the positions q and keys at k; near keys first."""

    @abstractmethod
    def longest(self, trained: int) -> float:
        """How many tokens a text may have so that no distance of ``trained`` or more is used; ∞ for any number, and
        0 where the settings use one for some text that is no longer than ``trained``."""

    def cached(self, positions: Tensor) -> Tensor:
        """Where the keys of a cache are rotated to, where they are."""
        return positions

    def with_scaling(self, scaling: Scaling | None, phases: Phases | None = None) -> Encoding:
        if scaling is None:
            return NoPE()
        return self.with_settings(rotary=self.rotary.with_scaling(scaling, phases))

    def rotate_keys(self, k: Float[Tensor, "B K S D"], positions: Positions) -> Float[Tensor, "B K S D"]:
        check_heads("k", k, positions, self.head_dim)
        return self.rotary.rotate_keys(k, self.cached(positions)) if self.rotates_cached else k

    def unrotate(self, k: Float[Tensor, "B K S D"], positions: Positions) -> Float[Tensor, "B K S D"]:
        check_heads("k", k, positions, self.head_dim)
        return self.rotary.unrotate(k, self.cached(positions)) if self.rotates_cached else k

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedRemap(self, q_positions, k_positions, dtype)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self.settings.items() if name != "rotary")

    def describe(self) -> str:
        return f"{self.name}: {self.extra_repr()}, of {self.rotary.describe()}"
