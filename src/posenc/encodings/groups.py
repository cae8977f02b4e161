"""Rotation by tables with gradients, or with one for each group of heads: what learned rotations share."""

import copy
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.encoding import check_heads
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.errors import InvalidArgument
from posenc.kernels.rotary import rotate
from posenc.kernels.rotary.specification import Pairing


@runtime_checkable
class Turns(Protocol):
    """An encoding that gives one cos and one sin per group of heads, position and pair."""

    head_dim: int
    groups: int
    heads: int | None
    axes: int
    pairing: Pairing

    def tables(self, positions: Positions, dtype: torch.dtype = ...) -> tuple[Tensor, Tensor]: ...


class PlacedGroups(Placed):
    """cos and sin ``(B or 1, groups, T, pairs)`` at the queries' positions; those of other keys are made when they
    turn."""

    def __init__(
        self, encoding: Turns, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype
    ) -> None:
        super().__init__(q_positions, k_positions, encoding.axes)
        self.encoding, self.dtype, self.of_groups = encoding, dtype, slice(None)
        self.q_tables = encoding.tables(q_positions, dtype)

    def some_heads(self, first: int, last: int) -> Placed:
        own = self.encoding
        if own.groups == 1:
            return self
        if own.heads is None or own.heads % own.groups:
            raise InvalidArgument(
                f"heads={own.heads} with groups={own.groups}: to give a rank some heads, say how many there are"
            )
        size = own.heads // own.groups
        whole = first % size == 0 and last % size == 0
        if not whole and first // size != (last - 1) // size:
            raise InvalidArgument(
                f"first={first} and last={last} cut groups of {size} heads; take whole groups, or part of one"
            )
        some = copy.copy(self)
        some.of_groups = slice(first // size, (last - 1) // size + 1)
        return some

    def rotate(
        self, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K S D"]
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B K S D"]]:
        own, alike = self.encoding, self.meets_cache(k) or self.k_positions is self.q_positions
        check_heads("q", q, self.q_positions, own.head_dim, own.axes)
        check_heads("k", k, self.q_positions if alike else self.k_positions, own.head_dim, own.axes)
        tables = self.q_tables if alike else own.tables(self.k_positions, self.dtype)
        return self._turned(q, self.q_tables), self._turned(k, tables)

    def _turned(self, x: Float[Tensor, "B n T D"], tables: tuple[Tensor, Tensor]) -> Float[Tensor, "B n T D"]:
        cos, sin = (table[:, self.of_groups] for table in tables)
        return turned(x, cos, sin, self.encoding.pairing)


def turned(
    x: Float[Tensor, "B n T D"],
    cos: Float[Tensor, "#B groups T pairs"],
    sin: Float[Tensor, "#B groups T pairs"],
    pairing: Pairing,
) -> Float[Tensor, "B n T D"]:
    """Queries or keys turned by their groups' tables: consecutive heads are a group, those that share keys too."""
    groups = cos.shape[1]
    if x.shape[1] % groups:
        raise InvalidArgument(
            f"there are {x.shape[1]} heads and groups={groups}; the heads of queries and of keys must both be a "
            "multiple of it"
        )
    if groups > 1:
        cos, sin = (table.repeat_interleave(x.shape[1] // groups, dim=1) for table in (cos, sin))
    return rotate(x, cos, sin, pairing)
