"""Rotation of queries and keys by any tables of cos and sin: the base of rotary, learned and custom rotations."""

from abc import abstractmethod
from typing import Any, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import at_least, one_of
from posenc.clock import RADIANS_PER_UNIT
from posenc.encodings.encoding import Encoding
from posenc.encodings.fit import check_heads, keys_at_queries
from posenc.encodings.placed import KeyPositions, Keys, Placed, Positions, Queries, over_heads
from posenc.encodings.wide import widest
from posenc.errors import InvalidArgument
from posenc.kernels.rotary import Tables, rotate, rotate_both
from posenc.kernels.rotary.specification import Pairing

Pair = tuple[Tensor, Tensor]
"""cos and sin."""


class Rotation(Encoding):
    """Rotates pairs of channels of queries and keys by angles that ``tables`` gives.

    (x, y) → (x·cos φ − y·sin φ,  x·sin φ + y·cos φ) for every pair of channels. A subclass writes ``tables`` and
    declares ``relative``; caches, gradients, 16-bit types and ``rerotate`` follow. Learned frequencies:

        class LearnedFrequencies(posenc.Rotation):
            name, relative = "learned-frequencies", True

            def __init__(self, head_dim):
                super().__init__(head_dim, pairing="half")
                self.frequencies = torch.nn.Parameter(torch.empty(head_dim // 2))
                self.reset_parameters()

            def reset_parameters(self):
                torch.nn.init.uniform_(self.frequencies, 0.001, 1.0)

            def tables(self, positions, dtype=torch.float32):
                angles = self.angles(positions, self.frequencies)
                return angles.cos().to(dtype), angles.sin().to(dtype)

    What is computed from trained parameters, such as the exp of logarithms, is computed in float64,
    ``self.a.double().exp()``, so that a cast to 16 bits rounds the parameters alone.

    Args:
        head_dim: D, channels of one head; those behind the pairs of ``tables`` pass bit for bit.
        pairing: ``"half"`` or ``"interleaved"``, as in ``Rotary``.
    """

    acts_on = ("queries_keys",)
    not_rerotatable = ""

    attention_factor: float = 1.0
    """What its tables are multiplied by."""

    groups: int = 1
    """Groups of consecutive heads with tables of their own; the heads of keys are a multiple of it."""

    heads: int | None = None
    """H, query heads; needed where a rank holds some of several groups."""

    def __init__(self, head_dim: int, pairing: Pairing) -> None:
        super().__init__()
        one_of("pairing", pairing, get_args(Pairing))
        self.head_dim = at_least(1)(head_dim, "head_dim")
        self.pairing: Pairing = pairing

    @abstractmethod
    def tables(self, positions: Positions, dtype: torch.dtype = torch.float32) -> Pair:
        """cos and sin at these positions: ``(T, pairs)``, ``(B, T, pairs)`` or ``(#B, groups, T, pairs)``."""

    def angles(
        self, positions: Positions, frequencies: Float[Tensor, "*shape pairs"]
    ) -> Float[Tensor, "#B groups T pairs"]:
        """Σ_a p_a·F[a, g, i] in radians, exact at any position, with a gradient to the frequencies F.

        Args:
            positions: as ``at`` takes them.
            frequencies: F, radians per position, ``(pairs,)``, ``(groups, pairs)`` or ``(axes, groups, pairs)``;
                each is read as the 64-bit fraction of a turn that it is nearest to.
        """
        wide = widest(positions.device)
        F = frequencies.to(wide).reshape(self.axes, -1, frequencies.shape[-1])
        at = positions[None] if self.axes == 1 else positions
        at = (at[:, None] if at.dim() == 2 else at)[:, :, None, :, None]  # (A, B, 1, T, 1)
        fractions = F.detach() / (RADIANS_PER_UNIT * 2.0**64)
        words = ((fractions - (fractions + 0.5).floor()) * 2.0**64).round().to(torch.int64)
        phases = (at * words[:, None, :, None]).sum(0)
        # Plus zero, with the gradient of the angle: autograd sees p·F, and the number stays that of the integers.
        return phases.to(wide) * RADIANS_PER_UNIT + (at.to(wide) * (F - F.detach())[:, None, :, None]).sum(0)

    def rotate_keys(self, k: Float[Tensor, "B K S D"], positions: Positions) -> Float[Tensor, "B K S E"]:
        check_heads("k", k, positions, self.head_dim, self.axes)
        return rotate(k, *for_heads(k.shape[1], *self.tables(positions, k.dtype)), self.pairing)

    def unrotate(self, k: Float[Tensor, "B K S E"], positions: Positions) -> Float[Tensor, "B K S D"]:
        check_heads("k", k, positions, self.head_dim, self.axes)
        cos, sin = for_heads(k.shape[1], *self.tables(positions, k.dtype))
        back = self.attention_factor**-2
        return rotate(k, cos * back, -sin * back, self.pairing)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedRotation(self, q_positions, k_positions, dtype)


class PlacedRotation(Placed):
    """cos and sin ``(#B, groups, T, pairs)`` at the queries' positions; other keys' are made where they are
    rotated."""

    def __init__(
        self, encoding: Rotation, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype
    ) -> None:
        super().__init__(q_positions, k_positions, encoding.axes)
        self.encoding, self.dtype, self.of_groups = encoding, dtype, (0, encoding.groups)
        self.q_tables = self._tables(q_positions)

    def slice_heads(self, first: int, last: int) -> Placed:
        groups, heads = self.encoding.groups, self.encoding.heads
        sliced = cast(PlacedRotation, super().slice_heads(first, last))
        if groups == 1:
            return sliced
        if heads is None or heads % groups:
            raise InvalidArgument(
                f"heads={heads} with groups={groups}: to give a rank some heads, say how many there are"
            )
        size = heads // groups
        cuts = first % size or last % size
        if cuts and first // size != (last - 1) // size:
            raise InvalidArgument(
                f"first={first} and last={last} cut groups of {size} heads; take whole groups, or part of one"
            )
        sliced.of_groups = first // size, (last - 1) // size + 1
        return sliced

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        self.check_current()
        alike = keys_at_queries(self, q, k, self.encoding.head_dim)
        of_keys = self.q_tables if alike else self._tables(self.k_positions)
        both = ((q, self.q_tables), (k, of_keys))
        for_q, for_k = (of_all if x is None else self._for_heads(of_all, x.shape[1]) for x, of_all in both)
        # One that is None has the other's tables, which are not read.
        tables = for_k if q is None else for_q, for_q if k is None else for_k
        rotated: tuple[Any, ...] = rotate_both(q, k, Tables(*tables[0]), Tables(*tables[1]), self.encoding.pairing)
        return cast(tuple[Queries, Keys], rotated)

    def _for_heads(self, of_all: Pair, heads: int) -> Pair:
        """The tables of so many heads."""
        if of_all[0].shape[1] == 1:
            return of_all
        return for_heads(heads, *(table[:, slice(*self.of_groups)] for table in of_all))

    def _tables(self, positions: Positions) -> Pair:
        cos, sin = (over_heads(table) for table in self.encoding.tables(positions, self.dtype))
        return (cos, sin) if cos.dim() == 4 else (cos[None, None], sin[None, None])


def for_heads(heads: int, cos: Tensor, sin: Tensor) -> Pair:
    """Tables of ``Rotation.tables`` for so many heads: consecutive heads are a group."""
    cos, sin = over_heads(cos), over_heads(sin)
    groups = 1 if cos.dim() == 2 else cos.shape[1]
    if heads % groups:
        raise InvalidArgument(
            f"there are {heads} heads and groups={groups}; the heads of queries and of keys must both be a "
            "multiple of it"
        )
    if groups == 1:
        return cos, sin
    return cos.repeat_interleave(heads // groups, dim=1), sin.repeat_interleave(heads // groups, dim=1)
